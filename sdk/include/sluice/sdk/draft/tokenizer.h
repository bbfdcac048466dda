/* Draft extension sluice.tokenizer/1: prompts to token ids for models the gateway cannot load. No promise.
 *
 * Threads: the tag in front of each function says who calls it; see sdk/README.md.
 */
#ifndef SLUICE_SDK_DRAFT_TOKENIZER_H
#define SLUICE_SDK_DRAFT_TOKENIZER_H

#include "../request.h"
#define SLUICE_EXT_TOKENIZER "sluice.tokenizer/1"
typedef struct sluice_model sluice_model;    /* plugin-defined */
typedef struct sluice_tokenizer {
    uint32_t size, reserved;
    /* [control] Load once per served model; may block on disk. */
    sluice_status (*open)(sluice_instance *self, sluice_str model, sluice_str path,
                          sluice_model **out, sluice_error *err);
    void (*close)(sluice_instance *self, sluice_model *model);
    /* [control] Stable text naming vocabulary + template revision. */
    sluice_status (*identity)(sluice_instance *self, sluice_model *model, sluice_sink *out);
    /* [request] Prompt of a chat-like body. NULL = raw prompts only. */
    sluice_status (*render)(sluice_instance *self, sluice_model *model, const sluice_request *req,
                            sluice_sink *out, sluice_error *err);
    /* [request] Writes native-endian uint32 ids. */
    sluice_status (*encode)(sluice_instance *self, sluice_model *model, sluice_str text,
                            uint32_t flags, sluice_sink *out, sluice_error *err);
} sluice_tokenizer;
enum { SLUICE_ENCODE_SPECIAL = 1u << 0 };

#endif /* SLUICE_SDK_DRAFT_TOKENIZER_H */
