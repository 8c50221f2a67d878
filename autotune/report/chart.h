// The figures of a report as inline SVG. Colours come from the page's style sheet, so that light and dark need no second drawing. Every
// figure is 440 units wide with letters of 14: legible at any width that a figure gets, 360 pixels of a telephone included.
#pragma once
#include <string>
#include <vector>

namespace gdn::tune {

/// How many configurations have which cost, on a logarithmic axis whose bins meet at 1 (the default). Marks the default and the best.
std::string histogram(const std::vector<double> &costs, double best);

/// Best cost over evaluations: what half of the runs had reached, and the band of the middle half of the runs.
struct Curve {
    std::string name;
    std::vector<double> middle, low, high;  // after 1, 2, .. evaluations; low and high empty: no band. Not finite: nothing found yet
};
/// `dots`: cost of every evaluation, of a single run; those above the frame are left out. `shares`: evaluations with
/// their label ("15 %"), drawn as upright lines. `best`: the best known cost.
std::string convergence(const std::vector<Curve> &curves, const std::vector<double> &dots,
    const std::vector<std::pair<double, std::string>> &shares, double best);

struct Bar {
    std::string label, note;
    double share;  // 0 to 1
};
std::string bars(const std::vector<Bar> &bars);

struct Cell {
    double cost = 0;  // 0: nothing succeeded
    int failures = 0;
};
/// cells[row][column].
std::string heat_map(const std::string &row_name, const std::vector<std::string> &rows, const std::string &column_name,
    const std::vector<std::string> &columns, const std::vector<std::vector<Cell>> &cells);

struct Spot {
    double flops_per_byte, gflops;
    bool best;  // else the default
    std::string label;
};
/// Ceilings that are 0 are not drawn.
std::string roofline(const std::vector<Spot> &spots, double peak_gflops, double memory_gbytes);

}  // namespace gdn::tune
