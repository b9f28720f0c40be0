/* names.c - `kiln styles`, `kiln loras`, `kiln models`: the names that a job line may have.
 *
 * Styles and LoRAs are those that `kiln enqueue` on this machine knows: files of a directory, and
 * LoRAs of the registry too.  Models are those of the live workers, beside the one of the settings.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "scheduler/cli/core/fit.h"
#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/text_safe.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/roster.h"
#include "scheduler/cli/jobs/enqueue/context.h"
#include "schemas/job/styles.h"

#define NAME_COLUMNS 24

/* --- styles and LoRAs ------------------------------------------------------------------------- */

static int put_style(struct kiln_listing *listing, const struct kiln_style *style,
                     struct kiln_error *err)
{
    struct kiln_text *line = &listing->line;
    if (listing->cli->json) {
        kiln_json_put(line, "{style:s prefix:s suffix:s negative:s}\n", style->name, style->prefix,
                      style->suffix, style->negative);
        return kiln_listing_put(listing, err);
    }
    kiln_text_cell(line, listing->cli->columns, style->name, NAME_COLUMNS);
    kiln_text_puts(line, " ");
    kiln_text_safe(line, style->prefix);
    kiln_text_puts(line, "PROMPT");
    kiln_text_safe(line, style->suffix);
    if (style->negative[0]) {
        kiln_text_puts(line, "  without: ");
        kiln_text_safe(line, style->negative);
    }
    kiln_text_puts(line, "\n");
    return kiln_listing_put(listing, err);
}

static int list_styles(struct kiln_listing *listing, struct kiln_enqueue_context *context,
                       struct kiln_error *err)
{
    const struct kiln_styles *styles = context->styles ? context->styles : kiln_styles_builtin();
    int rc = 0;
    for (size_t i = 0; styles && rc == 0 && i < kiln_styles_count(styles); i++)
        rc = put_style(listing, kiln_styles_at(styles, i), err);
    return rc;
}

/* With its file on this machine, or where else it is. */
static int put_lora(struct kiln_listing *listing, const char *name,
                    const struct kiln_lora_name *known, struct kiln_error *err)
{
    struct kiln_text *line = &listing->line;
    char path[PATH_MAX];
    struct stat st;
    kiln_lora_path(listing->cli->config, name, path);
    const bool here = stat(path, &st) == 0;
    const bool stored = known && known->stored;
    const uint64_t bytes = here ? (uint64_t)st.st_size : known ? known->bytes : 0;
    if (listing->cli->json) {
        kiln_json_put(line, "{lora:s path:s bytes:u registered:b stored:b}\n", name,
                      here ? path : NULL, bytes, known != NULL, stored);
        return kiln_listing_put(listing, err);
    }
    kiln_text_cell(line, listing->cli->columns, name, NAME_COLUMNS);
    kiln_text_printf(line, " %9s  ", KILN_BYTES(bytes));
    kiln_text_safe(line, here     ? path
                         : stored ? "(in the store)"
                                  : "(in a lora_dir of another machine)");
    kiln_text_puts(line, "\n");
    return kiln_listing_put(listing, err);
}

/* Without the registry those of the directory, if there is one. */
static int list_loras(struct kiln_listing *listing, struct kiln_enqueue_context *context,
                      struct kiln_error *err)
{
    struct kiln_error away;
    const bool registry = kiln_enqueue_context_registry(context, &away) == 0;
    const char *const *names =
        registry ? context->all_loras : (const char *const *)context->lora_names;
    const size_t count = registry ? context->all_lora_count : context->lora_count;
    int rc = 0;
    if (!registry && !context->lora_names)
        return kiln_fail(err, KILN_NOT_FOUND,
                         "no directory of LoRAs can be seen from here: set lora_dir, or model to a "
                         "directory that has loras/; and the registry cannot be read: %s",
                         away.text);
    if (!registry)
        kiln_warn(listing->cli, "only files of this machine: the registry cannot be read: %s",
                  away.text);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = put_lora(listing, names[i], kiln_lora_find(&context->registry, names[i]), err);
    return rc;
}

static int list_names(struct kiln_cli *cli, const char *none,
                      int (*list)(struct kiln_listing *, struct kiln_enqueue_context *,
                                  struct kiln_error *))
{
    struct kiln_error err;
    struct kiln_enqueue_context context;
    struct kiln_listing listing = {.cli = cli, .none = none};
    int rc = kiln_enqueue_context_open(cli->config, NULL, 0, false, &context, &err);
    if (rc)
        return kiln_report(cli, &err);
    rc = list(&listing, &context, &err);
    kiln_enqueue_context_release(&context);
    return kiln_listing_end(&listing, rc, &err);
}

int kiln_verb_styles(struct kiln_cli *cli, const struct kiln_args *args)
{
    (void)args;
    return list_names(cli, "no styles", list_styles);
}

int kiln_verb_loras(struct kiln_cli *cli, const struct kiln_args *args)
{
    (void)args;
    return list_names(cli, "no LoRAs", list_loras);
}

/* --- models ----------------------------------------------------------------------------------- */

/* How many live workers have the model of worker number `at`; 0 if an earlier one has it too. */
static int workers_of(const struct kiln_roster *roster, size_t at)
{
    int count = 0;
    for (size_t i = 0; i < roster->count; i++) {
        if (!roster->at[i].live || strcmp(roster->at[i].beat.model, roster->at[at].beat.model) != 0)
            continue;
        if (i < at)
            return 0;
        count++;
    }
    return count;
}

int kiln_verb_models(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct kiln_roster roster;
    struct kiln_listing listing = {.cli = cli, .none = "no model: no worker is alive"};
    (void)args;
    if (kiln_roster_live(cli, &roster, &err))
        return kiln_report(cli, &err);
    if (cli->tty_out && !cli->json && roster.live)
        kiln_print_fit(cli, KILN_CUT, "%-*s %7s  %s", NAME_COLUMNS, "MODEL", "WORKERS", "ENGINE");
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < roster.count; i++) {
        const struct kiln_heartbeat *beat = &roster.at[i].beat;
        int workers = roster.at[i].live ? workers_of(&roster, i) : 0;
        if (workers == 0)
            continue;
        if (cli->json) {
            kiln_json_put(&listing.line, "{model:s workers:i engine:s}\n", beat->model, workers,
                          beat->engine);
        } else {
            kiln_text_cell(&listing.line, cli->columns, beat->model, NAME_COLUMNS);
            kiln_text_printf(&listing.line, " %7d  ", workers);
            kiln_text_safe(&listing.line, beat->engine);
            kiln_text_puts(&listing.line, "\n");
        }
        rc = kiln_listing_put(&listing, &err);
    }
    kiln_roster_release(&roster);
    return kiln_listing_end(&listing, rc, &err);
}
