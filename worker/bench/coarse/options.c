/* options.c - the command line of `kiln bench coarse`; see coarse.h. */
#include "worker/bench/coarse/coarse.h"
#include "worker/bench/lora.h"
#include "worker/bench/modes.h"

#define COUNT_DEFAULT 100
#define SEEDS_DEFAULT 2

const char kiln_coarse_usage[] =
    "Usage: kiln bench coarse [options]\n"
    "\n"
    "Renders the same prompts and seeds exactly, coarse first and in fewer steps, and\n"
    "prints a table for each size: cost, how much of what the prompts say is right,\n"
    "sharpness, and how much pictures of different seeds differ, each with its\n"
    "standard error. The judge knows the world of the demo model. For other models,\n"
    "--sheet writes a page that shows the pictures side by side.\n"
    "\n"
    "  --model DIR            diffusers layout (that of the settings, else the demo\n"
    "                         model)\n"
    "  --sizes N,WxH,...      full sizes (512)\n"
    "  --modes S+L,...        S steps at the small size, then L at full size\n"
    "                         (4+3,4+2; with other --steps half of them, then three\n"
    "                         or two eighths); from 1024 px also S+M+L: S at a\n"
    "                         smaller size yet, M at the small one, then L\n"
    "  --small N,WxH,...      small sizes to choose from (about half the side)\n"
    "  --steps N              of an exact run (as kiln.json of the model says, else\n"
    "                         8)\n"
    "  --enlarge N,...        also: exact at the small size, enlarged, and N last\n"
    "                         steps, beside that small picture, its donor (none)\n"
    "  --variety X,...        also: exact but for this variety, 0 to 1 (none);\n"
    "                         without --modes no coarse runs\n"
    "  --no-fewer             leave out the rows of fewer steps at equal cost\n"
    "  --prompts FILE         JSON lines: prompts and what they ask for (held.jsonl\n"
    "                         of tests/quality); with --sheet a prompt a line\n"
    "  --count N              at most N prompts (100; of a sheet all)\n"
    "  --seeds K              pictures of each prompt (2; of a sheet 1); spread needs\n"
    "                         2\n"
    "  --lora NAME|FILE[:W]   also with this LoRA, its strength W (1); up to 8 times.\n"
    "                         NAME is in the folder loras of the model; a style that\n"
    "                         the judge knows is counted, and others are not offered\n"
    "  --dtype fp32,bf16,fp8  one or more (bf16)\n"
    "  --device cpu|cuda:N    (cpu)\n"
    "  --records FILE         write each result there at once; a bench that was\n"
    "                         interrupted goes on where it stopped if it is started\n"
    "                         again with the same file\n"
    "  --report               measure nothing: report what the file of --records\n"
    "                         holds so far\n"
    "  --write                write what was found into kiln.json of the model: for\n"
    "                         coarse \"auto\", and how much variety costs little\n"
    "  --sheet FILE.html      write a page with the pictures of each run instead;\n"
    "                         needs no judge\n"
    "  --judge DIR            another judge\n"
    "  --threads N            of the CPU (all)\n"
    "  --json                 one object on standard output\n"
    "\n"
    "--write offers the fastest mode that is as good as exact: attributes within 0.5\n"
    "and whole prompts within 1.5 points of exact, at least 97 % of its sharpness and\n"
    "95 % of its spread. The standard error counts against the mode, so a few\n"
    "pictures are not enough; 300 prompts with 2 seeds are. Of --variety it notes the\n"
    "largest value up to which attributes and whole prompts hold so, for each size.\n"
    "\n"
    "Examples:\n"
    "  kiln bench coarse --count 20\n"
    "  kiln bench coarse --sizes 512,896x512 --count 300 --records coarse.jsonl \\\n"
    "      --write\n"
    "  kiln bench coarse --lora neon --lora clay --count 300\n"
    "  kiln bench coarse --model Z-Image-Turbo --device cuda:0 --sizes 1024 \\\n"
    "      --sheet coarse.html\n";

static int check(struct kiln_coarse_options *o, struct kiln_error *err)
{
    if (!o->model)
        return kiln_fail(err, KILN_BAD_INPUT, "--model DIR is missing");
    if (!o->sheet && !o->judge)
        return kiln_fail(err, KILN_BAD_INPUT, "--judge DIR is missing");
    if (!o->sheet && !o->prompts && !o->lists)
        return kiln_fail(err, KILN_BAD_INPUT, "--prompts FILE is missing");
    if (o->report && !o->records)
        return kiln_fail(err, KILN_BAD_INPUT, "--report needs --records FILE");
    if (o->sheet && (o->write || o->json || o->records))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "--sheet measures nothing: leave out --write, --json and --records");
    if (o->mode_count == 0 && o->enlarge_count)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "--variety without --modes: no coarse run is measured, "
                         "so leave out --enlarge");
    for (int s = 0; s < o->size_count; s++) {
        const struct kiln_picture_size size = {(uint32_t)o->sizes[s].width,
                                               (uint32_t)o->sizes[s].height};
        const int code = kiln_bench_modes_check(o->modes, o->mode_count, size, o->steps, err);
        if (code)
            return code;
    }
    for (int i = 0; i < o->variety_count; i++)
        (void)kiln_mode_variety(o->varieties[i], &o->varieties[i]);
    for (int i = 0; i < o->enlarge_count; i++)
        if (o->enlarge[i] >= o->steps)
            return kiln_fail(err, KILN_BAD_INPUT, "--enlarge %d: less than the %d steps of a run",
                             o->enlarge[i], o->steps);
    for (int i = 0; i < o->small_count; i++)
        o->small[i] = (struct kiln_picture_size){(uint32_t)o->small_given[i].width,
                                                 (uint32_t)o->small_given[i].height};
    for (int i = 0; i < o->dtype_count && o->write; i++)
        if (o->dtypes[i] == DIFFUSIONZ_AUTO)
            return kiln_fail(err, KILN_BAD_INPUT,
                             "--dtype auto: " KILN_MODEL_CARD
                             " names what was measured, so --write needs fp32, bf16 or fp8");
    for (int i = 0; i < o->lora_count && o->write; i++)
        if (!(o->loras[i].weight > 0))
            return kiln_fail(err, KILN_BAD_INPUT,
                             "--lora %s: strength %g; --write needs one above 0", o->loras[i].path,
                             (double)o->loras[i].weight);
    int code = 0;
    for (int i = 0; i < o->lora_count && code == 0; i++)
        code = kiln_bench_lora_find(o->model, &o->loras[i], err);
    return code;
}

static void set_defaults(struct kiln_coarse_options *o)
{
    if (!o->count)
        o->count = o->sheet ? KILN_REQUESTS_MAX : COUNT_DEFAULT;
    if (!o->seeds)
        o->seeds = o->sheet ? 1 : SEEDS_DEFAULT;
    if (!o->steps)
        o->steps = kiln_batch_steps_usual(o->model);
    if (!o->dtype_count)
        o->dtypes[o->dtype_count++] = DIFFUSIONZ_BF16;
    if (!o->size_count)
        o->sizes[o->size_count++] = (struct kiln_bench_size){512, 512};
    const bool none_given = o->mode_count == 0 && o->variety_count == 0;
    if (none_given)
        o->mode_count = kiln_bench_modes_usual(o->steps, o->modes);
}

int kiln_coarse_options_read(int argc, char **argv, struct kiln_coarse_options *ret,
                             struct kiln_error *err)
{
    struct kiln_coarse_options o = {.device = -1};
    const int most = KILN_COARSE_LIST_MAX;
    const struct kiln_verb_option table[] = {
        {"model", kiln_take_text, .to = &o.model},
        {"sizes", kiln_take_size, .to = o.sizes, 0, 0, &o.size_count, sizeof *o.sizes, most},
        {"modes", kiln_take_coarse, .to = o.modes, 0, 0, &o.mode_count, sizeof *o.modes, most},
        {"small", kiln_take_size, .to = o.small_given, 0, 0, &o.small_count, sizeof *o.small_given,
         KILN_LIST_MAX},
        {"steps", kiln_take_small, .to = &o.steps, 2, KILN_STEPS_MAX},
        {"enlarge", kiln_take_small, .to = o.enlarge, 1, KILN_STEPS_MAX, &o.enlarge_count,
         sizeof *o.enlarge, most},
        {"variety", kiln_take_number, .to = o.varieties, 0, 1, &o.variety_count,
         sizeof *o.varieties, KILN_COARSE_VARIETIES_MAX},
        {"no-fewer", NULL, .to = &o.no_fewer},
        {"prompts", kiln_take_text, .to = &o.prompts},
        {"count", kiln_take_whole, .to = &o.count, 1, KILN_REQUESTS_MAX},
        {"seeds", kiln_take_small, .to = &o.seeds, 1, KILN_COARSE_SEEDS_MAX},
        {"lora", kiln_take_lora, .to = o.loras, .list = &o.lora_count, .most = most},
        {"dtype", kiln_take_dtype, .to = o.dtypes, 0, 0, &o.dtype_count, sizeof *o.dtypes, most},
        {"device", kiln_take_device, .to = &o.device},
        {"records", kiln_take_text, .to = &o.records},
        {"report", NULL, .to = &o.report},
        {"write", NULL, .to = &o.write},
        {"sheet", kiln_take_text, .to = &o.sheet},
        {"judge", kiln_take_text, .to = &o.judge},
        {"lists", kiln_take_text, .to = &o.lists}, /* kiln-bench says where they are installed */
        {"threads", kiln_take_small, .to = &o.threads, 0, KILN_THREADS_MAX},
        {"json", NULL, .to = &o.json},
        {0},
    };
    static const char *const local[] = {"--model",   "--judge", "--lists",
                                        "--records", "--sheet", NULL};
    kiln_measured_command("bench coarse", local, argc, argv, o.command, sizeof o.command);
    int code = kiln_verb_options("bench coarse", argc, argv, table, &o.help, err);
    if (code || o.help) {
        ret->help = o.help;
        return code;
    }
    set_defaults(&o);
    code = check(&o, err);
    if (!code)
        *ret = o;
    return code;
}
