#include "autotune/search/given.h"

#include <algorithm>

namespace gdn::tune {

namespace {

class Given : public Searcher {
public:
    explicit Given(std::vector<Point> points) : points_(std::move(points)) {}

    std::string name() const override { return "given"; }
    std::vector<Point> ask(size_t n) override {
        const size_t from = next_;
        next_ = std::min(points_.size(), next_ + n);
        return {points_.begin() + static_cast<std::ptrdiff_t>(from), points_.begin() + static_cast<std::ptrdiff_t>(next_)};
    }
    void tell(const Point &, const Outcome &) override {}

private:
    std::vector<Point> points_;
    size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Searcher> make_given(std::vector<Point> points) { return std::make_unique<Given>(std::move(points)); }

}  // namespace gdn::tune
