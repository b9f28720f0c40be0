/* options.c - the command line of `kiln bench teleport`; see teleport.h. */
#include <stdlib.h>

#include "worker/bench/lora.h"
#include "worker/bench/teleport/teleport.h"

#define COUNT_DEFAULT 100
#define REFUSED_DEFAULT 30
#define POOLS_DEFAULT 6
#define PAIRS_MAX 100000

/* Measured: scripts/bench/RESULTS.md. */
static const uint32_t soften_usual[] = {5, 4};

const char kiln_teleport_usage[] =
    "Usage: kiln bench teleport [options]\n"
    "\n"
    "Renders pairs of prompts: the target in full, and from the donor's latent with\n"
    "1, 2, ... steps skipped, beside the same with another seed and in fewer steps.\n"
    "Prints how much of what the target says is right, with standard errors, and how\n"
    "much pictures from the donors of a prompt differ. The guard of the latent cache\n"
    "decides which pairs count as hits; the others show what it keeps away. The judge\n"
    "knows the world of the demo model.\n"
    "\n"
    "  --model DIR            diffusers layout (that of the settings, else the demo\n"
    "                         model)\n"
    "  --sizes N,WxH,...      (256)\n"
    "  --pairs FILE           lines of class, target, donor and what the target asks\n"
    "                         for (reuse/demo.tsv of tests/quality; make_pairs.py\n"
    "                         there makes more)\n"
    "  --count N              at most N pairs of each class that the guard accepts\n"
    "                         (100)\n"
    "  --refused N            at most N pairs of each kind that it refuses (30)\n"
    "  --pools N              prompts of each accepted class whose variety is\n"
    "                         measured, with 8 donors and 8 pictures from each\n"
    "                         (6; at most 256)\n"
    "  --seeds K              pictures of each pair (1)\n"
    "  --seed N               another N: the same pairs with other noise (0)\n"
    "  --steps N              of a full run (as kiln.json of the model says, else 8)\n"
    "  --soften N,...         for runs that skip 1, 2, ... steps: flatten donors in\n"
    "                         cells of N x N values of the latent; 0: they stay as\n"
    "                         they are (5,4)\n"
    "  --small                from donors of the small size of coarse runs, enlarged;\n"
    "                         more than half of the steps skipped. Goes without\n"
    "                         --combine and --fit\n"
    "  --coarse S+L           all runs are coarse first; those from donors leave out\n"
    "                         their first small steps. Goes without --small,\n"
    "                         --combine, --fit and --modes\n"
    "  --donors off|S+L       for --coarse: how donors were rendered; off: exactly\n"
    "                         (as all runs)\n"
    "  --lora NAME|FILE[:W]   all runs with this LoRA, its strength W (1). NAME is in\n"
    "                         the folder loras of the model; prompts name a style\n"
    "                         that the judge knows. Goes without --small, --coarse\n"
    "                         and --fit\n"
    "  --combine              also from the nearest 2 and 4 of 8 donors, combined:\n"
    "                         their mean (lerp), along arcs (slerp), and along arcs\n"
    "                         in pairs (tree)\n"
    "  --fit                  fit a learned gate beside the rules of the guard: on\n"
    "                         the pairs of odd lines, tested on the others\n"
    "  --embedder DIR         for --fit: a model that embeds texts, for their cosine\n"
    "  --modes S+L,...        coarse first, without a donor, if there is a small size\n"
    "                         (4+3,4+2 of 8 steps)\n"
    "  --extend               in which further formats of --dtype rows of kiln.json\n"
    "                         hold: what each loses more than the first one, on the\n"
    "                         same pairs with the same noise. --write notes it there\n"
    "  --no-fewer             leave out the runs of fewer steps\n"
    "  --dtype LIST           of fp32, bf16, fp8 (bf16)\n"
    "  --device cpu|cuda:N    (cpu)\n"
    "  --records FILE         write each result there at once; a bench that was\n"
    "                         interrupted goes on where it stopped if it is started\n"
    "                         again with the same file\n"
    "  --report               measure nothing: report what the file of --records\n"
    "                         holds so far\n"
    "  --write                write what was found into kiln.json of the model, for\n"
    "                         teleport \"auto\"\n"
    "  --judge DIR            another judge\n"
    "  --threads N            of the CPU (all)\n"
    "  --json                 one object on standard output\n"
    "\n"
    "--write offers a depth of a class where attributes lose at most 0.5 and whole\n"
    "prompts at most 1.5 points, with a LoRA its style at most 1, in every dtype. The\n"
    "standard error counts against it, so few pairs are not enough. It replaces the\n"
    "rows of the sizes of this command, or with --small those of small donors, with\n"
    "--coarse those of coarse runs, with --lora those of the LoRA's file.\n"
    "\n"
    "Examples:\n"
    "  kiln bench teleport --count 5 --refused 2 --pools 1\n"
    "  kiln bench teleport --count 500 --records teleport.jsonl --write\n"
    "  kiln bench teleport --lora pixel --count 500 --write\n";

static int check(struct kiln_teleport_options *o, struct kiln_error *err)
{
    if (!o->model)
        return kiln_fail(err, KILN_BAD_INPUT, "--model DIR is missing");
    if (!o->judge)
        return kiln_fail(err, KILN_BAD_INPUT, "--judge DIR is missing");
    if (!o->pairs && !o->lists)
        return kiln_fail(err, KILN_BAD_INPUT, "--pairs FILE is missing");
    if (o->report && !o->records)
        return kiln_fail(err, KILN_BAD_INPUT, "--report needs --records FILE");
    for (int i = 0; i < o->size_count; i++) {
        const struct kiln_picture_size size = {(uint32_t)o->sizes[i].width,
                                               (uint32_t)o->sizes[i].height};
        int code = kiln_bench_modes_check(o->modes, o->mode_count, size, o->steps, err);
        if (code == 0 && o->coarse.kind == KILN_MODE_COARSE)
            code = kiln_bench_modes_check(&o->coarse, 1, size, o->steps, err);
        if (code == 0 && o->donors.kind == KILN_MODE_COARSE)
            code = kiln_bench_modes_check(&o->donors, 1, size, o->steps, err);
        if (code)
            return code;
    }
    if (o->small && (o->combine || o->fit))
        return kiln_fail(err, KILN_BAD_INPUT, "--small goes without --combine and --fit");
    if (o->coarse.kind == KILN_MODE_COARSE && (o->small || o->combine || o->fit || o->mode_count))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "--coarse goes without --small, --combine, --fit and --modes");
    if (o->donors.kind == KILN_MODE_COARSE && o->coarse.kind != KILN_MODE_COARSE)
        return kiln_fail(err, KILN_BAD_INPUT, "--donors S+L goes with --coarse");
    for (int i = 0; i < o->dtype_count && o->write; i++)
        if (o->dtypes[i] == DIFFUSIONZ_AUTO)
            return kiln_fail(err, KILN_BAD_INPUT,
                             "--dtype auto: " KILN_MODEL_CARD
                             " names what was measured, so --write needs fp32, bf16 or fp8");
    if (o->fit && o->dtype_count > 1)
        return kiln_fail(err, KILN_BAD_INPUT, "--fit goes with one --dtype");
    if (o->extend && (o->dtype_count < 2 || o->json || o->fit || o->small || o->lora_count ||
                      o->coarse.kind == KILN_MODE_COARSE))
        return kiln_fail(err, KILN_BAD_INPUT,
                         "--extend needs two formats in --dtype, and goes without --json, --fit, "
                         "--small, --coarse and --lora");
    if (!o->lora_count)
        return 0;
    if (o->small || o->fit || o->coarse.kind == KILN_MODE_COARSE)
        return kiln_fail(err, KILN_BAD_INPUT, "--lora goes without --small, --coarse and --fit");
    if (o->write && !(o->lora.weight > 0))
        return kiln_fail(err, KILN_BAD_INPUT, "--lora %s: strength %g; --write needs one above 0",
                         o->lora.path, (double)o->lora.weight);
    return kiln_bench_lora_find(o->model, &o->lora, err);
}

static void set_defaults(struct kiln_teleport_options *o)
{
    if (!o->steps)
        o->steps = kiln_batch_steps_usual(o->model);
    if (!o->soften_count)
        for (size_t i = 0; i < sizeof soften_usual / sizeof *soften_usual; i++)
            o->soften[o->soften_count++] = soften_usual[i];
    if (!o->dtype_count)
        o->dtypes[o->dtype_count++] = DIFFUSIONZ_BF16;
    if (!o->size_count)
        o->sizes[o->size_count++] = (struct kiln_bench_size){256, 256};
    if (o->donors.kind == KILN_MODE_COARSE_AUTO)
        o->donors = o->coarse;
    if (o->coarse.kind == KILN_MODE_COARSE)
        o->no_fewer = true;
    else if (!o->mode_count)
        o->mode_count = kiln_bench_modes_usual(o->steps, o->modes);
    if (o->report) /* its device is that of the records */
        o->device = -1;
}

int kiln_teleport_options_read(int argc, char **argv, struct kiln_teleport_options *ret,
                               struct kiln_error *err)
{
    struct kiln_teleport_options o = {.device = -1,
                                      .seeds = 1,
                                      .donors.kind = KILN_MODE_COARSE_AUTO, /* not given */
                                      .count = COUNT_DEFAULT,
                                      .refused = REFUSED_DEFAULT,
                                      .pools = POOLS_DEFAULT};
    const struct kiln_verb_option table[] = {
        {"model", kiln_take_text, .to = &o.model},
        {"sizes", kiln_take_size, .to = o.sizes, 0, 0, &o.size_count, sizeof *o.sizes,
         KILN_TELEPORT_SIZES_MAX},
        {"pairs", kiln_take_text, .to = &o.pairs},
        {"count", kiln_take_whole, .to = &o.count, 0, PAIRS_MAX},
        {"refused", kiln_take_whole, .to = &o.refused, 0, PAIRS_MAX},
        {"pools", kiln_take_whole, .to = &o.pools, 0, KILN_TELEPORT_POOLS_EACH_MAX},
        {"seeds", kiln_take_small, .to = &o.seeds, 1, KILN_TELEPORT_SEEDS_MAX},
        {"seed", kiln_take_whole, .to = &o.seed, 0, UINT16_MAX},
        {"steps", kiln_take_small, .to = &o.steps, 2, KILN_STEPS_MAX},
        {"soften", kiln_take_small, .to = o.soften, 0, KILN_CARD_SOFTEN_MAX, &o.soften_count,
         sizeof *o.soften, KILN_CARD_SOFTEN},
        {"small", NULL, .to = &o.small},
        {"coarse", kiln_take_coarse, .to = &o.coarse},
        {"donors", kiln_take_coarse, .to = &o.donors},
        {"lora", kiln_take_lora, .to = &o.lora, .list = &o.lora_count, .most = 1},
        {"combine", NULL, .to = &o.combine},
        {"fit", NULL, .to = &o.fit},
        {"extend", NULL, .to = &o.extend},
        {"embedder", kiln_take_text, .to = &o.embedder},
        {"modes", kiln_take_coarse, .to = o.modes, 0, 0, &o.mode_count, sizeof *o.modes,
         KILN_TELEPORT_MODES_MAX},
        {"no-fewer", NULL, .to = &o.no_fewer},
        {"dtype", kiln_take_dtype, .to = o.dtypes, 0, 0, &o.dtype_count, sizeof *o.dtypes,
         KILN_CARD_DTYPES},
        {"device", kiln_take_device, .to = &o.device},
        {"records", kiln_take_text, .to = &o.records},
        {"report", NULL, .to = &o.report},
        {"write", NULL, .to = &o.write},
        {"judge", kiln_take_text, .to = &o.judge},
        {"lists", kiln_take_text, .to = &o.lists}, /* kiln-bench says where they are installed */
        {"threads", kiln_take_small, .to = &o.threads, 0, KILN_THREADS_MAX},
        {"json", NULL, .to = &o.json},
        {0},
    };
    static const char *const local[] = {"--model",   "--judge",    "--lists",
                                        "--records", "--embedder", NULL};
    kiln_measured_command("bench teleport", local, argc, argv, o.command, sizeof o.command);
    int code = kiln_verb_options("bench teleport", argc, argv, table, &o.help, err);
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
