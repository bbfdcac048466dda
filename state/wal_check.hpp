// Whether a write-ahead log has lost what was acknowledged. SQLite itself reads a log up to its
// first bad frame and takes the rest for the torn end of a write that nobody was told of.
//
// Threads: the opener's.
// Errors:  none: bytes in, a verdict out. What cannot be told from a torn end is called whole.
// Limits:  reads the log once, frame by frame.
// Source:  SQLite's file format, section 4 (write-ahead log): header of 32 bytes, frames of 24
//          bytes and a page, cumulative checksums over both; tests/unit/state/wal_check_test.cpp
//          reads logs written by SQLite itself.
#pragma once
#include <optional>
#include <string>

namespace sluice::state {

// Why the log at `path` is damaged; empty when it is whole, torn at its end, or not there.
//
// A header is on the disk before the first frame is written, and a transaction is before the next
// one begins: so a bad header with frames behind it is damage, and so is a bad frame before a
// finished transaction that another one follows.
std::optional<std::string> wal_damage(const std::string& path);

}  // namespace sluice::state
