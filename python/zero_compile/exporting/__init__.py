"""A model, with its loss and its state, to an ONNX file that trains as torch does."""
