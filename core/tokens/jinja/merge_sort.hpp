// A stable sort that any comparison is safe with.
//
// The order of template values need not be a consistent one (NaN, mixed kinds, a comparison that
// fails half-way), which std::sort may answer by leaving the range.
//
// Threads: any.
#pragma once
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

namespace sluice::tokens::jinja {

// O(n log n) calls of `less`, one copy of the items as working memory.
template <class T, class Less>
void merge_sort(std::vector<T>& items, Less less) {
    std::vector<T> merged;
    merged.reserve(items.size());
    for (std::size_t width = 1; width < items.size(); width *= 2) {
        merged.clear();
        for (std::size_t start = 0; start < items.size(); start += 2 * width) {
            std::size_t a = start;
            std::size_t b = std::min(start + width, items.size());
            const std::size_t a_end = b;
            const std::size_t b_end = std::min(start + 2 * width, items.size());
            while (a < a_end || b < b_end) {
                const bool takes_b = b < b_end && (a == a_end || less(items[b], items[a]));
                merged.push_back(items[takes_b ? b++ : a++]);
            }
        }
        items.swap(merged);
    }
}

}  // namespace sluice::tokens::jinja
