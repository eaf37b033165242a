"""What exporters cannot write, put in other words while a model is traced: a room for each kind of function."""
