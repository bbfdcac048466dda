// The parts of an Index, shared by its two files.
//
// Threads: as Index.
#pragma once
#include "core/kv/block_table.hpp"
#include "core/kv/epoch.hpp"
#include "core/kv/holders.hpp"
#include "core/kv/index.hpp"
#include "core/kv/writer.hpp"

namespace sluice::kv {

struct Index::State {
    explicit State(const IndexOptions& options)
        : table(retired), writer(table, holders, retired, options) {}

    Retired retired;
    BlockTable table;
    Holders holders;
    Writer writer;
};

}  // namespace sluice::kv
