/* verbs_lora.c - the row of `kiln lora`. */
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/verb_tables.h"

static const struct kiln_option lora_options[] = {
    {"loras", "FILE", "the texts of the LoRAs, such as pipeline/models/sketch/loras/loras.json"},
    {"negative-prompt", "TEXT", "what the picture shall not show; bars the LoRAs it names"},
    {"style", "NAME", "the style preset of the job, which counts as a word of the prompt"},
    {"base", "NAME", "only LoRAs of this base model (all)"},
    {"variant", "NAME", "only LoRAs of this variant of it, such as turbo (all)"},
    {"of-tenant", "NAME", "also the LoRAs that are this tenant's alone"},
    {"commercial", NULL, "only LoRAs whose licence is known to allow commercial use"},
    {"video", NULL, "LoRAs for video, not for pictures"},
    {NULL, NULL, NULL}};

const struct kiln_verb kiln_verbs_lora[] = {
    {.name = "lora",
     .args = "try PROMPT --loras FILE",
     .summary = "which LoRAs a prompt asks for, their scales, and why",
     .examples = "kiln lora try 'a fox, pixel art' --loras loras.json\n"
                 "kiln lora try 'an aquarelle of a barn, no neon' --loras loras.json --json",
     .options = lora_options,
     .words = {1, 2},
     .settings = KILN_SETTINGS_LENIENT,
     .run = kiln_verb_lora},
    {.name = NULL},
};
