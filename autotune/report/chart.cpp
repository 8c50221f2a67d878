#include "autotune/report/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "autotune/format.h"

namespace gdn::tune {
namespace {

constexpr double kWidth = 440, kLetter = 7.6;  // width of a letter, roughly: only to keep labels apart

struct Tick {
    double value;
    std::string label;
};

std::vector<Tick> linear_ticks(double from, double to, int about) {
    const double raw = (to - from) / about, power = std::pow(10, std::floor(std::log10(raw)));
    const double step = power * (raw <= power ? 1 : raw <= 2 * power ? 2 : raw <= 5 * power ? 5 : 10);
    const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
    std::vector<Tick> ticks;
    for (double i = std::ceil(from / step - 1e-9); i * step <= to + 1e-9 * step; i++)
        ticks.push_back({i * step, fixed(i * step, decimals)});
    return ticks;
}

std::vector<Tick> log_ticks(double from, double to, int about) {
    std::vector<Tick> ticks;
    const int first = static_cast<int>(std::floor(std::log10(from))), last = static_cast<int>(std::ceil(std::log10(to)));
    const bool decades_only = std::log10(to / from) * 3 > about;
    const int stride = std::max(1, (last - first) / about);
    for (int decade = first; decade <= last; decade++) {
        for (int digit : {1, 2, 5}) {
            const double value = digit * std::pow(10, decade);
            if (value < from * (1 - 1e-9) || value > to * (1 + 1e-9)) continue;
            if (!decades_only || (digit == 1 && (decade - first) % stride == 0)) ticks.push_back({value, plain(value)});
        }
    }
    return ticks.size() < 3 && to / from < 20 ? linear_ticks(from, to, about) : ticks;
}

struct Axis {
    double from, to, begin, end;  // values, and where they lie
    bool log = false;
    double operator()(double value) const {
        const double share = log ? std::log(value / from) / std::log(to / from) : (value - from) / (to - from);
        return begin + std::min(1.0, std::max(0.0, share)) * (end - begin);
    }
    std::vector<Tick> ticks(int about) const { return log ? log_ticks(from, to, about) : linear_ticks(from, to, about); }
};

std::string at(double v) { return fixed(v, 1); }

class Svg {
public:
    Svg(double height, const std::string &description) {
        out_ = "<svg viewBox=\"0 0 " + at(kWidth) + " " + at(height) + "\" role=\"img\" aria-label=\"" + escape(description) + "\">\n";
    }
    void line(double x1, double y1, double x2, double y2, const std::string &look) {
        out_ += "<line x1=\"" + at(x1) + "\" y1=\"" + at(y1) + "\" x2=\"" + at(x2) + "\" y2=\"" + at(y2) + "\" class=\"" + look + "\"/>\n";
    }
    void box(double x, double y, double width, double height, const std::string &look, const std::string &tip = "") {
        out_ += "<rect x=\"" + at(x) + "\" y=\"" + at(y) + "\" width=\"" + at(std::max(0.0, width)) + "\" height=\"" +
                at(std::max(0.0, height)) + "\" class=\"" + look + "\"" + tipped(tip, "rect");
    }
    void circle(double x, double y, double radius, const std::string &look, const std::string &tip = "") {
        out_ += "<circle cx=\"" + at(x) + "\" cy=\"" + at(y) + "\" r=\"" + at(radius) + "\" class=\"" + look + "\"" + tipped(tip, "circle");
    }
    /// anchor: "start", "middle", "end".
    void text(double x, double y, const std::string &anchor, const std::string &text, const std::string &look = "") {
        out_ += "<text x=\"" + at(x) + "\" y=\"" + at(y) + "\" text-anchor=\"" + anchor + "\"" +
                (look.empty() ? "" : " class=\"" + look + "\"") + ">" + escape(text) + "</text>\n";
    }
    void upright(double x, double y, const std::string &text) {
        out_ += "<text transform=\"translate(" + at(x) + " " + at(y) + ") rotate(-90)\" text-anchor=\"middle\" class=\"axis\">" +
                escape(text) + "</text>\n";
    }
    void path(const std::string &data, const std::string &look) {
        if (!data.empty()) out_ += "<path d=\"" + data + "\" class=\"" + look + "\"/>\n";
    }
    std::string done() { return out_ + "</svg>\n"; }

private:
    static std::string tipped(const std::string &tip, const std::string &element) {
        return tip.empty() ? "/>\n" : "><title>" + escape(tip) + "</title></" + element + ">\n";
    }
    std::string out_;
};

/// Grid, tick labels and names of both axes.
void frame(Svg &svg, const Axis &x, const std::string &x_name, int x_ticks, const Axis &y, const std::string &y_name, int y_ticks) {
    for (const Tick &tick : y.ticks(y_ticks)) {
        svg.line(x.begin, y(tick.value), x.end, y(tick.value), "grid");
        svg.text(x.begin - 7, y(tick.value) + 5, "end", tick.label);
    }
    double free = -1e9;
    for (const Tick &tick : x.ticks(x_ticks)) {
        const double half = kLetter * static_cast<double>(tick.label.size()) / 2, middle = std::min(x(tick.value), kWidth - half);
        svg.line(x(tick.value), y.begin, x(tick.value), y.begin + 5, "tick");
        if (middle - half < free) continue;
        svg.text(middle, y.begin + 20, "middle", tick.label);
        free = middle + half + 6;
    }
    svg.line(x.begin, y.begin, x.end, y.begin, "tick");
    svg.text((x.begin + x.end) / 2, y.begin + 41, "middle", x_name, "axis");
    svg.upright(14, (y.begin + y.end) / 2, y_name);
}

double left_of(const Axis &y, int ticks) {
    size_t longest = 1;
    for (const Tick &tick : y.ticks(ticks)) longest = std::max(longest, tick.label.size());
    return 32 + kLetter * static_cast<double>(longest);
}

std::string times(double cost) { return fixed(cost, cost < 10 ? 3 : 1) + " ×"; }

/// A labelled upright line: the label stands on that side of it where there is room.
void mark(Svg &svg, double x, double top, double bottom, double label_y, const std::string &label, const std::string &look) {
    svg.line(x, top, x, bottom, "mark " + look);
    const bool left = x + 8 + kLetter * static_cast<double>(label.size()) > kWidth;
    svg.text(left ? x - 6 : x + 6, label_y, left ? "end" : "start", label, "label " + look);
}

/// A stepped line: y of each index, holes where nothing is known.
std::string steps(const std::vector<double> &values, const Axis &x, const Axis &y) {
    std::string data;
    double last = 0;
    size_t end = 0;
    for (size_t i = 0; i < values.size(); i++) {
        if (!std::isfinite(values[i])) continue;
        const double here = y(values[i]);
        if (data.empty()) {
            data = "M" + at(x(static_cast<double>(i + 1))) + " " + at(here);
        } else if (at(here) != at(last)) {
            data += "H" + at(x(static_cast<double>(i + 1))) + "V" + at(here);
        }
        last = here;
        end = i + 1;
    }
    return data.empty() ? data : data + "H" + at(x(static_cast<double>(end)));
}

/// The area between two stepped lines of equal length: along the one, back along the other.
std::string area(const std::vector<double> &low, const std::vector<double> &high, const Axis &x, const Axis &y) {
    const auto known = [&](size_t i) { return std::isfinite(low[i]) && std::isfinite(high[i]); };
    const auto place = [&](size_t i) { return at(x(static_cast<double>(i + 1))); };
    size_t first = 0;
    while (first < low.size() && !known(first)) first++;
    if (first == low.size()) return "";
    std::string out = "M" + place(first) + " " + at(y(low[first])), back;
    size_t last = first;
    for (size_t i = first + 1; i < low.size() && known(i); last = i++) {
        if (at(y(low[i])) != at(y(low[i - 1]))) out += "H" + place(i) + "V" + at(y(low[i]));
        if (at(y(high[i])) != at(y(high[i - 1]))) back = "H" + place(i) + "V" + at(y(high[i - 1])) + back;
    }
    return out + "H" + place(last) + "V" + at(y(high[last])) + back + "H" + place(first) + "Z";
}

}  // namespace

std::string histogram(const std::vector<double> &costs, double best) {
    const double least = *std::min_element(costs.begin(), costs.end()), most = *std::max_element(costs.begin(), costs.end());
    // What is very slow shares the last bin: the figure is about the choice near the best.
    const double low = std::min(least, 1.0), high = std::max(1.02, std::min(most, std::max(4 * low, quantile(costs, 0.98) * 1.05)));
    const double width = std::log(high / low) / 30;
    const int first = static_cast<int>(std::floor(std::log(low) / width)), last = static_cast<int>(std::ceil(std::log(high) / width)) - 1;
    std::vector<int> bins(last - first + 1);
    for (double cost : costs) {
        const int bin = static_cast<int>(std::floor(std::log(cost) / width + 1e-9));
        bins[std::min(last, std::max(first, bin)) - first]++;
    }
    const int tallest = *std::max_element(bins.begin(), bins.end());
    Axis y{0, tallest * 1.02, 252, 44};
    const double left = left_of(y, 4);
    const Axis x{std::exp(first * width), std::exp((last + 1) * width), left, kWidth - 12, true};
    Svg svg(300,
        "Histogram of the time of " + count_of(costs.size(), "configuration") + " against the default's; the best takes " + times(best));
    frame(svg, x, most > high ? "time / default's time (last bar: and more)" : "time / default's time", 6, y, "configurations", 4);
    for (size_t i = 0; i < bins.size(); i++) {
        const double from = std::exp((first + static_cast<int>(i)) * width), to = std::exp((first + static_cast<int>(i) + 1) * width);
        const bool faster = first + static_cast<int>(i) < 0;
        svg.box(x(from) + 0.5, y(bins[i]), x(to) - x(from) - 1, y.begin - y(bins[i]), faster ? "faster" : "slower",
            count_of(bins[i], "configuration") + " from " + times(from) + " to " + times(to));
    }
    mark(svg, x(1), 36, y.begin, 32, "default", "default");
    mark(svg, x(best), 18, y.begin, 14, "best " + times(best), "best");
    return svg.done();
}

std::string convergence(const std::vector<Curve> &curves, const std::vector<double> &dots,
    const std::vector<std::pair<double, std::string>> &shares, double best) {
    size_t longest = dots.size();
    double worst = best;
    for (const Curve &curve : curves) {
        longest = std::max(longest, curve.middle.size());
        for (double value : curve.middle) {
            if (std::isfinite(value)) worst = std::max(worst, value);
        }
    }
    // Far above the default everything is equally lost.
    const double top = std::min(std::max(worst, best * 1.01), std::max(1.25, best * 1.3)), room = (top - best) * 0.06;
    const double legend = curves.size() > 1 ? 22.0 * static_cast<double>((curves.size() + 2) / 3) : 0;
    Axis y{best - room, top + (dots.empty() ? room : (top - best) * 0.35), 252, shares.empty() ? 12.0 : 30.0};
    const Axis x{1, std::max(2.0, static_cast<double>(longest)), left_of(y, 5), kWidth - 12};
    std::string description = "Best time so far against the default's over evaluations";
    for (const Curve &curve : curves) {
        if (!curve.middle.empty()) description += "; " + curve.name + " ends at " + fixed(curve.middle.back(), 3);
    }
    Svg svg(300 + legend, description);
    frame(svg, x, "evaluations", 6, y, "best time / default's time", 5);
    for (const auto &[evaluations, label] : shares) {
        if (evaluations > x.to) continue;
        svg.line(x(evaluations), y.end, x(evaluations), y.begin, "share");
        svg.text(x(evaluations), y.end - 8, "middle", label, "small");
    }
    for (size_t i = 0; i < curves.size(); i++) {
        if (!curves[i].low.empty()) svg.path(area(curves[i].low, curves[i].high, x, y), "band c" + std::to_string(i % 6));
    }
    std::string points;
    for (size_t i = 0; i < dots.size(); i++) {
        if (std::isfinite(dots[i]) && dots[i] <= y.to) points += "M" + at(x(static_cast<double>(i + 1))) + " " + at(y(dots[i])) + "h0";
    }
    svg.path(points, "dots");
    for (size_t i = 0; i < curves.size(); i++) svg.path(steps(curves[i].middle, x, y), "curve c" + std::to_string(i % 6));
    for (size_t i = 0; i < curves.size() && legend; i++) {
        const double column = 24 + static_cast<double>(i % 3) * 140, row = 316 + 22.0 * static_cast<double>(i / 3);
        svg.line(column, row - 5, column + 26, row - 5, "curve c" + std::to_string(i % 6));
        svg.text(column + 32, row, "start", shortened(curves[i].name, 13));
    }
    return svg.done();
}

std::string bars(const std::vector<Bar> &bars) {
    size_t longest = 1;
    for (const Bar &bar : bars) longest = std::max(longest, std::min<size_t>(bar.label.size(), 16));
    const double left = 8 + (kLetter + 0.6) * static_cast<double>(longest), height = 26 * static_cast<double>(bars.size());
    const Axis x{0, 1, left, kWidth - 108};
    Svg svg(height + 48, "Share of the spread of log time that each parameter explains");
    for (double tick : {0.0, 0.25, 0.5, 0.75, 1.0}) {
        svg.line(x(tick), 0, x(tick), height, "grid");
        if (tick == 0 || tick == 0.5 || tick == 1) svg.text(x(tick), height + 18, "middle", percent(tick, 0));
    }
    svg.text((x.begin + x.end) / 2, height + 40, "middle", "share of the variance of log(time)", "axis");
    for (size_t i = 0; i < bars.size(); i++) {
        const double y = 26 * static_cast<double>(i);
        svg.text(left - 7, y + 18, "end", shortened(bars[i].label, 16), "code");
        svg.box(left, y + 5, std::max(1.0, x(bars[i].share) - left), 16, "faster",
            bars[i].label + ": " + percent(bars[i].share) + ", " + bars[i].note);
        svg.text(
            x(bars[i].share) + 6, y + 18, "start", percent(bars[i].share, bars[i].share < 0.1 ? 1 : 0) + ", " + bars[i].note, "small halo");
    }
    return svg.done();
}

std::string heat_map(const std::string &row_name, const std::vector<std::string> &rows, const std::string &column_name,
    const std::vector<std::string> &columns, const std::vector<std::vector<Cell>> &cells) {
    double least = 0, most = 0;
    bool crosses = false;
    for (const auto &row : cells) {
        for (const Cell &cell : row) {
            crosses |= cell.cost <= 0 && cell.failures;
            if (cell.cost <= 0) continue;
            least = least ? std::min(least, cell.cost) : cell.cost;
            most = std::max(most, cell.cost);
        }
    }
    most = std::max(least * 1.02, std::min(most, least * 2));
    constexpr int kShades = 7;
    const auto shade = [&](double cost) {
        const double share = std::log(cost / least) / std::log(most / least);
        return std::min(kShades - 1, std::max(0, static_cast<int>(share * kShades)));
    };
    size_t longest = 1;
    for (const std::string &row : rows) longest = std::max(longest, row.size());
    const double left = 32 + kLetter * static_cast<double>(longest), width = (kWidth - 6 - left) / static_cast<double>(columns.size());
    const double height = std::min(36.0, std::max(22.0, 230.0 / static_cast<double>(rows.size()))),
                 bottom = height * static_cast<double>(rows.size());
    Svg svg(bottom + 98, "Best time against the default's for each pair of values of " + row_name + " and " + column_name);
    for (size_t r = 0; r < rows.size(); r++) {
        const double y = height * static_cast<double>(r);
        svg.text(left - 7, y + height / 2 + 5, "end", rows[r]);
        for (size_t c = 0; c < columns.size(); c++) {
            const Cell &cell = cells[r][c];
            const double x = left + width * static_cast<double>(c);
            const std::string where = row_name + " " + rows[r] + ", " + column_name + " " + columns[c] + ": ";
            const std::string look = cell.cost > 0 ? "h" + std::to_string(shade(cell.cost)) : "hole";
            const std::string failures = cell.failures ? count_of(cell.failures, "failure") : "";
            svg.box(x + 1, y + 1, width - 2, height - 2, look,
                where + (cell.cost > 0         ? "best " + times(cell.cost) + (failures.empty() ? "" : ", " + failures)
                            : failures.empty() ? "not tried"
                                               : failures));
            const std::string label = cell.cost > 0 ? fixed(cell.cost, cell.cost < 10 ? 2 : 0) : cell.failures ? "×" : "";
            if (width > kLetter * static_cast<double>(label.size()) + 4)
                svg.text(x + width / 2, y + height / 2 + 5, "middle", label, "in " + look);
        }
    }
    double free = -1e9;
    for (size_t c = 0; c < columns.size(); c++) {
        const double middle = left + width * (static_cast<double>(c) + 0.5), half = kLetter * static_cast<double>(columns[c].size()) / 2;
        if (middle - half < free) continue;
        svg.text(middle, bottom + 18, "middle", columns[c]);
        free = middle + half + 4;
    }
    svg.text((left + kWidth) / 2, bottom + 38, "middle", column_name, "axis");
    svg.upright(14, bottom / 2, shortened(row_name, static_cast<size_t>(std::max(3.0, bottom / kLetter))));
    const double y = bottom + 62;
    for (int i = 0; i < kShades; i++) svg.box(left + 24.0 * i, y, 23, 12, "h" + std::to_string(i));
    svg.text(left, y + 29, "start", fixed(least, 2), "small");
    svg.text(left + 24 * kShades, y + 29, "end", fixed(most, 2) + (most < least * 2 ? "" : "+"), "small");
    svg.text(left + 24 * kShades + 10, y + 11, "start", crosses ? "× only failures" : "", "small");
    return svg.done();
}

std::string roofline(const std::vector<Spot> &spots, double peak_gflops, double memory_gbytes) {
    double left_end = 1e300, right_end = 0, low = 1e300, high = peak_gflops;
    for (const Spot &spot : spots) {
        left_end = std::min(left_end, spot.flops_per_byte), right_end = std::max(right_end, spot.flops_per_byte);
        low = std::min(low, spot.gflops), high = std::max(high, spot.gflops);
    }
    if (peak_gflops > 0 && memory_gbytes > 0)
        right_end = std::max(right_end, peak_gflops / memory_gbytes), left_end = std::min(left_end, peak_gflops / memory_gbytes);
    left_end /= 3, right_end *= 3;
    low /= 3, high *= 1.8;
    Axis y{low, high, 252, 12, true};
    const Axis x{left_end, right_end, left_of(y, 5), kWidth - 12, true};
    Svg svg(322, "Roofline: operations per byte against speed, default and best configuration");
    frame(svg, x, "floating-point operations per byte moved", 6, y, "GFLOP/s", 5);
    // The corner of the roof: where memory stops being the limit.
    const double ridge = peak_gflops > 0 && memory_gbytes > 0 ? peak_gflops / memory_gbytes : memory_gbytes > 0 ? right_end : left_end;
    if (memory_gbytes > 0) {
        const double from = std::max(left_end, low / memory_gbytes);
        if (from < ridge) {
            svg.line(x(from), y(from * memory_gbytes), x(ridge), y(std::min(high, ridge * memory_gbytes)), "roof");
            const double middle = std::sqrt(from * ridge);
            svg.text(x(middle) + 8, y(middle * memory_gbytes) + 16, "start", "memory " + fixed(memory_gbytes, 1) + " GB/s", "small halo");
        }
    }
    if (peak_gflops > 0) {
        svg.line(x(ridge), y(peak_gflops), x.end, y(peak_gflops), "roof");
        svg.text(x.end - 4, y(peak_gflops) - 6, "end", "peak " + fixed(peak_gflops, 0) + " GFLOP/s", "small halo");
    }
    for (const Spot &spot : spots) {
        svg.circle(x(spot.flops_per_byte), y(spot.gflops), spot.best ? 4.5 : 7, spot.best ? "spot best" : "spot default",
            spot.label + ": " + fixed(spot.gflops, 1) + " GFLOP/s, " + fixed(spot.flops_per_byte, 2) + " operations per byte");
    }
    svg.circle(30, 311, 7, "spot default");
    svg.text(42, 316, "start", "default");
    svg.circle(130, 311, 4.5, "spot best");
    svg.text(142, 316, "start", "best");
    return svg.done();
}

}  // namespace gdn::tune
