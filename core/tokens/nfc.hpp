// Canonical composition (NFC) with the tables of Unicode 9.0.
//
// Later characters count as starters that nothing composes with, which is what the reference's
// normalization crate makes of them: marks added since are not reordered, and they block.
//
// Threads: any; pure functions.
// Errors:  none; the text is valid UTF-8.
// Limits:  the result is at most three times as long as the text.
// Source:  UAX #15; Unicode 9.0 by scripts/make-unicode-tables; tests/vectors/tokens (combining-*,
//          unicode-age-*).
#pragma once
#include <string>
#include <string_view>

namespace sluice::tokens {

// True if nfc(text) is certainly `text`. Quick for ASCII and for CJK.
bool is_nfc_quick(std::string_view text) noexcept;

// Appends the composed form of `text` to `out`.
void append_nfc(std::string_view text, std::string& out);

}  // namespace sluice::tokens
