#include "autotune/db/sqlite.h"

#include <cerrno>
#include <cmath>
#include <cstring>

#include <sqlite3.h>
#include <unistd.h>

#include "autotune/status.h"

namespace gdn::tune {

Database::Database(const std::string &path, Mode mode) : path_(path) {
    const int flags = mode == Mode::kCreate  ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                      : mode == Mode::kWrite ? SQLITE_OPEN_READWRITE
                                             : SQLITE_OPEN_READONLY;
    const auto open = [&](const std::string &name, int more) {
        sqlite3_close(db_);
        // A name that starts with "file:" or ":" would mean something else to SQLite.
        if (sqlite3_open_v2(name.c_str(), &db_, flags | more, nullptr) != SQLITE_OK) fail();
        sqlite3_extended_result_codes(db_, 1);
        sqlite3_busy_timeout(db_, 10000);
    };
    const std::string name = path[0] == '/' ? path : "./" + path;
    try {
        open(name, 0);
        // Reading a WAL database makes side files. Where the folder is read-only and no writer has left a log, the file is all there is.
        const int code =
            mode == Mode::kRead ? sqlite3_exec(db_, "SELECT 1 FROM sqlite_master", nullptr, nullptr, nullptr) & 0xff : SQLITE_OK;
        if ((code == SQLITE_CANTOPEN || code == SQLITE_READONLY) && access((name + "-wal").c_str(), F_OK) != 0) {
            std::string uri = "file:";
            for (const char c : name) {
                static const char kHex[] = "0123456789abcdef";
                if (std::strchr("?#%", c)) {
                    uri += {'%', kHex[c >> 4 & 15], kHex[c & 15]};
                } else {
                    uri += c;
                }
            }
            open(uri + "?immutable=1", SQLITE_OPEN_URI);
        }
    } catch (...) {
        sqlite3_close(db_);
        throw;
    }
}

Database::~Database() { sqlite3_close(db_); }

void Database::execute(const char *sql) {
    if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail();
}

void Database::fail() const {
    const int code = sqlite3_errcode(db_) & 0xff;
    const int system = sqlite3_system_errno(db_);
    if (code == SQLITE_FULL || (code == SQLITE_IOERR && system == ENOSPC)) fail("cannot be written: the disk is full");
    if (code == SQLITE_NOTADB) fail("is no SQLite file");
    if (code == SQLITE_CORRUPT) fail(std::string("is corrupt: ") + sqlite3_errmsg(db_));
    if (code == SQLITE_READONLY) fail("cannot be written: it is read-only");
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED) fail("is in use by another program");
    std::string reason = std::string("cannot be used: ") + sqlite3_errmsg(db_);
    if (system) reason += std::string(" (") + std::strerror(system) + ")";
    fail(reason);
}

void Database::fail(const std::string &reason) const { throw Error("the journal " + path_ + " " + reason); }

Statement::Statement(Database &db, const char *sql) : db_(db) {
    if (sqlite3_prepare_v2(db_.db_, sql, -1, &statement_, nullptr) != SQLITE_OK) db_.fail();
}

Statement::~Statement() { sqlite3_finalize(statement_); }

bool Statement::step() {
    const int code = sqlite3_step(statement_);
    if (code != SQLITE_ROW && code != SQLITE_DONE) db_.fail();
    return code == SQLITE_ROW;
}

void Statement::reset() { sqlite3_reset(statement_); }

std::string Statement::text(int column) const {
    const auto *data = reinterpret_cast<const char *>(sqlite3_column_text(statement_, column));
    return data ? std::string(data, static_cast<size_t>(sqlite3_column_bytes(statement_, column))) : "";
}

int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_, column); }

double Statement::real(int column) const { return null(column) ? std::nan("") : sqlite3_column_double(statement_, column); }

bool Statement::null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

void Statement::bind_one(int i, const std::string &value) {
    if (sqlite3_bind_text64(statement_, i + 1, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8) != SQLITE_OK) db_.fail();
}

void Statement::bind_one(int i, int64_t value) {
    if (sqlite3_bind_int64(statement_, i + 1, value) != SQLITE_OK) db_.fail();
}

void Statement::bind_one(int i, double value) {
    if (sqlite3_bind_double(statement_, i + 1, value) != SQLITE_OK) db_.fail();
}

Transaction::Transaction(Database &db) : db_(db) { db_.execute("BEGIN IMMEDIATE"); }

Transaction::~Transaction() {
    if (!open_) return;
    try {
        db_.execute("ROLLBACK");
    } catch (const Error &) {
        // SQLite has rolled back by itself, as it does when the disk is full
    }
}

void Transaction::commit() {
    db_.execute("COMMIT");
    open_ = false;
}

}  // namespace gdn::tune
