/* verbs_lora.c - the row of `kiln lora`. */
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/verb_tables.h"

static const struct kiln_option lora_options[] = {
    {"name", "NAME", "add: its name in job lines (that of the file)"},
    {"triggers", "A,B", "words it was trained with; the first is prepended where none is written"},
    {"positive", "A,B", "phrases that ask for it; the lexicon adds others of the same meaning"},
    {"negative", "A,B", "phrases with its words that do not ask for it, such as clay pot"},
    {"description", "TEXT", "what it does"},
    {"examples", "PROMPT", "a prompt that it is for; may be given several times"},
    {"category", "NAME", "style, subject, character, effect or motion (style)"},
    {"type", "NAME", "image, video or both (image)"},
    {"base", "NAME",
     "its base model, such as z-image; try: instead of the base that the card of --model names"},
    {"variant", "NAME", "turbo, base, any or unknown; try: instead of the card's"},
    {"family", "NAME", "a team has at most one LoRA of a family"},
    {"trigger-mode", "MODE", "any: one trigger must be in the prompt; one: the first; never: none"},
    {"scale", "N", "recommended strength, not 0 (1)"},
    {"min", "N", "lowest strength"},
    {"max", "N", "highest strength"},
    {"licence", "TEXT", "name or text of its licence"},
    {"commercial-use", "WORD", "whether the licence allows it: yes, no or unknown (unknown)"},
    {"source", "TEXT", "where it comes from"},
    {"of-tenant", "NAME", "only this tenant may use it; try: as a job of this tenant"},
    {"enable", NULL, "prompts may choose it"},
    {"disable", NULL, "no prompt chooses it; job lines can still name it"},
    {"yes", NULL, "rm: do not ask"},
    {"dry-run", NULL, "learn: print what would change, and write nothing"},
    {"version", "N", "ls, show, try: the registry as it was at this version"},
    {"at", "N", "the same as --version"},
    {"loras", "FILE", "try: read this loras.json instead of the registry"},
    {"negative-prompt", "TEXT", "try: the negative prompt; LoRAs that it names are not chosen"},
    {"style", "NAME", "try: the style preset of the job, which counts as a word of the prompt"},
    {"commercial", NULL,
     "try: only LoRAs whose licence is known to allow commercial use, whatever "
     "router_licences says"},
    {"video", NULL, "try: LoRAs for video, not for pictures"},
    {NULL, NULL, NULL}};

const struct kiln_verb kiln_verbs_lora[] = {
    {.name = "lora",
     .args = "add|import|ls|show|edit|replace|rename|rm|try|learn ...",
     .summary = "manage the registry of LoRAs, and show which of them a prompt asks for",
     .more = "add FILE|DIR checks names and shapes against the model, measures the strength, puts "
             "the file into the store and registers it. import reads a loras.json or the sidecars "
             "of ComfyUI-Lora-Manager. edit NAME, replace NAME FILE and rename OLD NEW apply to "
             "later jobs: a job keeps the file that it was accepted with. rm NAME is "
             "refused while jobs wait for the LoRA. try PROMPT shows which LoRAs loras \"auto\" "
             "would choose, and why. learn gives LoRAs that \"auto\" chose a small bias, by the "
             "votes on their pictures and by favourites. Every change makes a new version of the "
             "registry; --version "
             "shows an earlier one. An option with an empty value removes that text.",
     .examples =
         "kiln lora add ink.safetensors --triggers 'ink wash' --positive 'sumi-e,brush ink'\n"
         "kiln lora import loras/loras.json\n"
         "kiln lora ls\n"
         "kiln lora edit ink --scale 0.8 --negative 'ink bottle'\n"
         "kiln lora try 'a fox, pixel art'\n"
         "kiln lora try 'a fox, pixel art' --version 41\n"
         "kiln lora try 'an aquarelle of a barn, no neon' --loras loras.json --json\n"
         "kiln lora learn --dry-run",
     .options = lora_options,
     .words = {1, 3},
     .settings = KILN_SETTINGS_LENIENT,
     .run = kiln_verb_lora},
    {.name = NULL},
};
