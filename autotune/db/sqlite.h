// SQLite with exceptions. Every failure is an Error that names the file and the reason.
#pragma once
#include <cstdint>
#include <string>

struct sqlite3;
struct sqlite3_stmt;

namespace gdn::tune {

class Database {
public:
    enum class Mode { kCreate, kWrite, kRead };
    Database(const std::string &path, Mode mode);
    ~Database();
    Database(const Database &) = delete;
    Database &operator=(const Database &) = delete;

    void execute(const char *sql);
    const std::string &path() const { return path_; }
    /// Throws for the last call's error code.
    [[noreturn]] void fail() const;
    [[noreturn]] void fail(const std::string &reason) const;

private:
    friend class Statement;
    std::string path_;
    sqlite3 *db_ = nullptr;
};

/// Parameters and columns count from 0. NaN, which SQL does not know, is stored as NULL.
class Statement {
public:
    Statement(Database &db, const char *sql);
    ~Statement();
    Statement(const Statement &) = delete;
    Statement &operator=(const Statement &) = delete;

    template <class... Values> Statement &bind(const Values &...values) {
        int i = 0;
        (bind_one(i++, values), ...);
        return *this;
    }
    /// True: there is a row.
    bool step();
    /// For the next set of parameters.
    void reset();

    std::string text(int column) const;
    int64_t integer(int column) const;
    double real(int column) const;
    bool null(int column) const;

private:
    void bind_one(int i, const std::string &value);
    void bind_one(int i, const char *value) { bind_one(i, std::string(value)); }
    void bind_one(int i, int64_t value);
    void bind_one(int i, int value) { bind_one(i, static_cast<int64_t>(value)); }
    void bind_one(int i, double value);

    Database &db_;
    sqlite3_stmt *statement_ = nullptr;
};

/// Rolled back unless committed.
class Transaction {
public:
    explicit Transaction(Database &db);
    ~Transaction();
    void commit();

private:
    Database &db_;
    bool open_ = true;
};

}  // namespace gdn::tune
