#include "kernels/cpu/fast/ProductChoices.h"
#include "base/Names.h"
#include "kernels/cpu/Tiles.h"
#include "kernels/cpu/fast/Dnnl.h"
#include "kernels/cpu/fast/Gemm.h"
#include "kernels/cpu/fast/MatmulTiles.h"
#include "kernels/cpu/fast/TilesBf16.h"

#include <algorithm>

namespace zc {

using namespace cpu;

/// Of all matrices together, the side that is cut where nothing else is said first.
static std::vector<ProductCut> sidesOf(const ProductShape &s) {
  const ProductCut longer = s.m >= s.n ? ProductCut::rows : ProductCut::columns;
  if (s.threads == 1)
    return {longer};
  return {longer, longer == ProductCut::rows ? ProductCut::columns : ProductCut::rows};
}

static std::vector<ProductChoice> choicesF32(const ProductShape &s) {
  std::vector<ProductCut> cuts = sidesOf(s);
  if (s.batch > 1 && s.batch >= s.threads)
    cuts = {ProductCut::batch};
  else if (MatmulShape shape{s.type, s.m, s.n, s.k, s.transLhs, s.transRhs, false, {}, {}, {}, s.batch};
           s.threads > 1 && DepthSums::canPay(shape))
    cuts.push_back(ProductCut::depth);
  std::vector<ProductMethod> methods = {ProductMethod::openblas, ProductMethod::onednn};
  if (fittingLibrary() == GemmLibrary::onednn)
    std::swap(methods[0], methods[1]);
  std::vector<ProductChoice> choices;
  for (ProductMethod method : methods)
    for (ProductCut cut : cuts)
      choices.push_back({method, cut});
  return choices;
}

std::vector<ProductChoice> choicesFor(const ProductShape &s) {
  if (s.type == DType::f32)
    return choicesF32(s);
  std::vector<ProductChoice> choices;
  const bool hasTiles =
      s.type == DType::bf16 && s.batch == 1 && s.threads <= Bf16Blocks::kMostThreads && bf16::engine();
  // Shorter sums are oneDNN's where no table says otherwise: a tile's own work is not small beside them. Parts of a
  // product have the same number of terms, hence the same bits.
  const bool areTilesFirst = hasTiles && s.k >= bf16::engine()->longTerms;
  const ProductChoice tiles{ProductMethod::tiles, ProductCut::own};
  if (areTilesFirst)
    choices.push_back(tiles);
  if (s.type == DType::bf16 && hasAvx512()) {
    choices.push_back({ProductMethod::onednn, ProductCut::own});
    if (s.batch == 1)
      choices.push_back({ProductMethod::packed, ProductCut::own});
  }
  if (hasTiles && !areTilesFirst)
    choices.push_back(tiles);
  for (ProductCut cut : sidesOf(s))
    choices.push_back({ProductMethod::widened, cut});
  return choices;
}

std::string productLibraries() { return describeLibraries(); }

uint64_t addressesOfProducts() {
  constexpr uint64_t kBuffer = uint64_t(128) << 20; // of OpenBLAS 0.3.21
  return fittingLibrary() == GemmLibrary::openblas ? kBuffer : 0;
}

namespace cpu {

static std::string describe(const ProductChoice &choice, int threads) {
  const std::string fitting = fittingLibrary() == GemmLibrary::openblas ? "OpenBLAS" : "oneDNN";
  const std::array<std::string, 5> methods = {"OpenBLAS", "oneDNN", "oneDNN on packed weights",
                                              fitting + " on widened blocks",
                                              nameOfBf16Tiles() ? nameOfBf16Tiles() : ""};
  std::string text = methods[static_cast<size_t>(choice.method)];
  if (threads > 1 && choice.cut != ProductCut::own)
    text += std::string(" by ") + nameOf(choice.cut);
  return text;
}

ChosenProduct withoutOnednn(const ProductShape &shape) {
  const std::vector<ProductChoice> choices = choicesFor(shape);
  const auto own = std::find_if(choices.begin(), choices.end(), [](const ProductChoice &choice) {
    return choice.method == ProductMethod::tiles || choice.method == ProductMethod::widened;
  });
  return {*own, false, describe(*own, shape.threads)};
}

Error lacksChoice(const ProductShape &shape, const ProductChoice &choice) {
  return makeError(Code::mismatch, 714,
                   "the table of products has \"" + std::string(nameOf(choice.method)) + "\" by \"" +
                       nameOf(choice.cut) + "\" for " + nameOf(shape) + ", which cannot be computed like that here",
                   {}, "make the table again with zero-run bench-machine, or give --products none");
}

Result<ChosenProduct> chooseProduct(const KernelSpec &spec, const MatmulShape &s) {
  const ProductShape shape = productOf(s, spec.threads);
  const std::vector<ProductChoice> choices = choicesFor(shape);
  ChosenProduct chosen{choices.front(), false, {}};
  if (spec.products) {
    if (auto found = spec.products->find(shape); found != spec.products->end()) {
      if (std::find(choices.begin(), choices.end(), found->second.choice) == choices.end())
        return lacksChoice(shape, found->second.choice);
      chosen = {found->second.choice, true, {}};
    }
  }
  chosen.text = describe(chosen.choice, spec.threads) + (chosen.isTuned ? ", tuned" : "");
  return chosen;
}

} // namespace cpu
} // namespace zc
