#include "base/StridedView.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace zc {

namespace {

constexpr size_t kMostDims = 64, kMostViews = 256; // pairs are compared

/// A dimension of more than one element.
struct Dim {
  int64_t size, stride;
};

std::vector<Dim> dimsByStride(const StridedView &view) {
  std::vector<Dim> dims;
  for (size_t d = 0; d < view.sizes.size(); ++d)
    if (view.sizes[d] > 1)
      dims.push_back({view.sizes[d], view.strides[d]});
  std::sort(dims.begin(), dims.end(), [](const Dim &a, const Dim &b) { return a.stride < b.stride; });
  return dims;
}

bool isEmpty(const StridedView &view) { return std::find(view.sizes.begin(), view.sizes.end(), 0) != view.sizes.end(); }

/// Its elements by strides that are not negative; nothing where it leaves a tensor of `room` elements.
std::optional<StridedView> ascendingWithin(StridedView view, int64_t room) {
  if (isEmpty(view))
    return view.offset <= room ? std::optional(StridedView{view.tensor, 0, {0}, {1}}) : std::nullopt;
  int64_t last = view.offset;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    int64_t along = 0;
    if (__builtin_mul_overflow(view.sizes[d] - 1, view.strides[d], &along) ||
        __builtin_add_overflow(along < 0 ? view.offset : last, along, along < 0 ? &view.offset : &last) ||
        view.offset < 0)
      return std::nullopt;
    view.strides[d] = along < 0 ? -view.strides[d] : view.strides[d];
  }
  return last < room ? std::optional(std::move(view)) : std::nullopt;
}

bool isNested(const StridedView &view) {
  int64_t extent = 1;
  for (Dim dim : dimsByStride(view)) {
    if (dim.stride < extent)
      return false;
    extent += (dim.size - 1) * dim.stride;
  }
  return true;
}

/// Where in each row of `row` elements the view's elements lie; nothing where they are not in the same place of each.
std::optional<std::pair<int64_t, int64_t>> placeInRow(const StridedView &view, int64_t row) {
  const int64_t first = view.offset % row;
  int64_t end = first + 1;
  for (Dim dim : dimsByStride(view)) {
    if (dim.stride < row)
      end += (dim.size - 1) * dim.stride;
    else if (dim.stride % row != 0)
      return std::nullopt;
  }
  return end <= row ? std::optional(std::pair(first, end)) : std::nullopt;
}

/// Is it easily seen that the views share no element: do they lie in different places of rows that one of them has?
bool areApart(const StridedView &a, const StridedView &b) {
  if (isEmpty(a) || isEmpty(b))
    return true;
  auto areApartIn = [&](int64_t row) {
    auto first = placeInRow(a, row), second = placeInRow(b, row);
    return first && second && (first->second <= second->first || second->second <= first->first);
  };
  if (areApartIn(std::numeric_limits<int64_t>::max()))
    return true;
  for (const StridedView *view : {&a, &b})
    for (Dim dim : dimsByStride(*view))
      if (areApartIn(dim.stride))
        return true;
  return false;
}

template <typename T> std::string str(T n) { return std::to_string(n); }

/// view_c4
std::optional<ViewProblem> findProblemOfResults(const std::vector<StridedView> &views,
                                                const std::vector<int64_t> &elements, size_t numInputs) {
  for (size_t tensor = numInputs; tensor < elements.size(); ++tensor) {
    int64_t seen = 0;
    for (size_t i = numInputs; i < views.size(); ++i) {
      if (views[i].tensor != tensor)
        continue;
      seen += views[i].numElements();
      for (size_t j = numInputs; j < i; ++j)
        if (views[j].tensor == tensor && !areApart(views[i], views[j]))
          return ViewProblem{"view_c4", "views " + str(j) + " and " + str(i) + " write elements of tensor " +
                                            str(tensor) + " that are not apart"};
      if (seen > elements[tensor]) // sums stay small
        break;
    }
    if (seen != elements[tensor])
      return ViewProblem{"view_c4", "views write " + str(seen) + " of the " + str(elements[tensor]) +
                                        " elements of tensor " + str(tensor)};
  }
  return std::nullopt;
}

} // namespace

StridedView StridedView::whole(size_t tensor, const std::vector<int64_t> &shape) {
  StridedView view{tensor, 0, shape, std::vector<int64_t>(shape.size())};
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    view.strides[d] = stride;
    stride *= std::max<int64_t>(shape[d], 1);
  }
  return view;
}

int64_t StridedView::numElements() const {
  if (isEmpty(*this))
    return 0;
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

int64_t StridedView::at(int64_t index) const {
  int64_t place = offset;
  for (size_t d = sizes.size(); d-- > 0; index /= sizes[d])
    place += index % sizes[d] * strides[d];
  return place;
}

bool StridedView::isAllOf(const std::vector<int64_t> &shape) const {
  return offset == 0 && isContiguous() && numElements() == whole(tensor, shape).numElements();
}

bool StridedView::isContiguous() const {
  const StridedView plain = whole(tensor, sizes);
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] > 1 && strides[d] != plain.strides[d])
      return false;
  return true;
}

StridedView StridedView::transposed(const std::vector<int64_t> &permutation) const {
  StridedView view{tensor, offset, {}, {}};
  for (int64_t from : permutation) {
    view.sizes.push_back(sizes[static_cast<size_t>(from)]);
    view.strides.push_back(strides[static_cast<size_t>(from)]);
  }
  return view;
}

StridedView StridedView::sliced(const std::vector<int64_t> &offsets, const std::vector<int64_t> &sliceSizes,
                                const std::vector<int64_t> &sliceStrides) const {
  StridedView view{tensor, offset, sliceSizes, strides};
  for (size_t d = 0; d < sizes.size(); ++d) {
    view.offset += offsets[d] * strides[d];
    view.strides[d] *= sliceStrides[d];
  }
  return view;
}

/// As numpy's reshape without a copy: the runs of dimensions with the same number of elements on both sides are cut
/// anew, one by one.
std::optional<StridedView> StridedView::reshaped(const std::vector<int64_t> &shape) const {
  if (isEmpty(*this))
    return std::nullopt;
  std::vector<Dim> from;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] > 1)
      from.push_back({sizes[d], strides[d]});
  StridedView view{tensor, offset, shape, std::vector<int64_t>(shape.size(), 1)};
  size_t taken = from.size();
  int64_t left = 1, stride = 1; // elements of the innermost run that no dimension has yet, and what is between them
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1)
      continue;
    // The run grows until it has the dimension's elements.
    for (; left % shape[d] != 0 || left < shape[d]; --taken) {
      if (taken == 0)
        return std::nullopt;
      const Dim &outer = from[taken - 1];
      if (left == 1)
        stride = outer.stride;
      else if (outer.stride != stride * left)
        return std::nullopt;
      left *= outer.size;
    }
    view.strides[d] = stride;
    stride *= shape[d];
    left /= shape[d];
  }
  return view;
}

std::vector<int64_t> encode(const std::vector<StridedView> &views) {
  std::vector<int64_t> words;
  for (const StridedView &view : views) {
    words.push_back(static_cast<int64_t>(view.tensor));
    words.push_back(view.offset);
    words.push_back(static_cast<int64_t>(view.sizes.size()));
    words.insert(words.end(), view.sizes.begin(), view.sizes.end());
    words.insert(words.end(), view.strides.begin(), view.strides.end());
  }
  return words;
}

std::optional<std::vector<StridedView>> decodeViews(const std::vector<int64_t> &words) {
  std::vector<StridedView> views;
  for (auto word = words.begin(); word != words.end();) {
    if (words.end() - word < 3 || word[0] < 0 || word[2] < 0 || word[2] > static_cast<int64_t>(kMostDims) ||
        words.end() - word - 3 < 2 * word[2])
      return std::nullopt;
    const auto sizes = word + 3, strides = sizes + word[2];
    views.push_back({static_cast<size_t>(word[0]), word[1], {sizes, strides}, {strides, strides + word[2]}});
    word = strides + word[2];
  }
  return views;
}

std::optional<ViewProblem> findProblem(const std::vector<StridedView> &views, const std::vector<int64_t> &elements,
                                       size_t numInputs) {
  if (views.size() > kMostViews)
    return ViewProblem{"view_c1", "there are " + str(views.size()) + " views"};
  std::vector<StridedView> ascending;
  ascending.reserve(views.size());
  for (size_t i = 0; i < std::max(views.size(), numInputs); ++i) {
    if (i >= views.size() || views[i].tensor >= elements.size() ||
        (i < numInputs ? views[i].tensor != i : views[i].tensor < numInputs))
      return ViewProblem{"view_c1", "view " + str(i) + " is not of the tensor that it has to be of"};
    const StridedView &view = views[i];
    auto isNegative = [](int64_t n) { return n < 0; };
    if (view.sizes.size() > kMostDims || view.sizes.size() != view.strides.size() || isNegative(view.offset) ||
        std::any_of(view.sizes.begin(), view.sizes.end(), isNegative))
      return ViewProblem{"view_c1", "view " + str(i) + " has negative numbers, or more than 64 dimensions"};
    const int64_t room = elements[view.tensor];
    std::optional<StridedView> within = ascendingWithin(view, room);
    if (!within)
      return ViewProblem{"view_c2", "view " + str(i) + ", from element " + str(view.offset) + " on, leaves tensor " +
                                        str(view.tensor) + " of " + str(room) + " elements"};
    if (!isEmpty(view) && !isNested(*within))
      return ViewProblem{"view_c3", "view " + str(i) + " has elements of tensor " + str(view.tensor) + " twice"};
    ascending.push_back(*std::move(within));
  }
  return findProblemOfResults(ascending, elements, numInputs);
}

} // namespace zc
