/* export.c - a batch into a directory.
 *
 * One walk over the batch in index order writes results.jsonl and the page and queues the files to
 * download; memory does not grow with the batch.  results.jsonl and index.html appear under their
 * names only when every file that they name is there, so a reader never sees half an export.  After
 * an error the downloaded files stay and the next export keeps them.
 *
 * If objects turn out to be damaged, the walk is repeated without them.  Most files are there by
 * then, but each is read and hashed once more.
 */
#include "scheduler/cli/jobs/export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/cli/core/output/crosstab.h"
#include "scheduler/cli/core/output/progress.h"
#include "scheduler/cli/core/output/records.h"
#include "scheduler/cli/core/paths.h"
#include "scheduler/cli/core/suggest.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/jobs/export/answers.h"
#include "scheduler/cli/jobs/export/describe.h"
#include "scheduler/cli/jobs/export/directory.h"
#include "scheduler/cli/jobs/export/fetch.h"
#include "scheduler/cli/jobs/export/html.h"
#include "scheduler/cli/jobs/export/sheet.h"
#include "storage/formats/replace.h"
#include "storage/ledger/ledger.h"

#define NAME_BYTES_MAX 96 /* of a custom_id in a file name */

/* A file that appears under its name only when it is whole. */
struct part_file {
    FILE *file; /* NULL: closed */
    struct kiln_part part;
};

struct exporting {
    const struct kiln_cli *cli;
    struct kiln_export *export;
    struct kiln_damages *damages; /* found by earlier walks */
    struct kiln_fetch *fetch;
    struct kiln_export_dir *dir;
    struct part_file results, html, grid, answer_file;
    struct kiln_answers *answers; /* NULL for none */
    struct kiln_html page;
    struct kiln_crosstab *table; /* of grid.html; NULL for none */
    struct kiln_sheet *sheet;    /* NULL for none */
    struct kiln_text line;
    struct kiln_bar bar;
    uint64_t total;
    uint32_t index; /* of the current job */
    bool doubled;   /* the job before it has the same index */
};

/* --- files ------------------------------------------------------------------------------------ */

/* dir/name.part now, dir/name when it is closed with keep. */
static int part_open(struct part_file *file, const char *dir, const char *name,
                     struct kiln_error *err)
{
    int rc = kiln_part_open_below(&file->part, dir, name, 0666, err);
    if (rc)
        return rc;
    int own = dup(file->part.fd);
    file->file = own >= 0 ? fdopen(own, "w") : NULL;
    if (file->file)
        return 0;
    rc = kiln_fail(err, KILN_IO, "open %s: %s", file->part.path, strerror(errno));
    if (own >= 0)
        close(own);
    kiln_part_drop(&file->part);
    return rc;
}

/* keep: renames it into place, else removes it. */
static int part_close(struct part_file *file, bool keep, struct kiln_error *err)
{
    if (!file->file)
        return 0;
    bool ok = fflush(file->file) == 0 && !ferror(file->file);
    ok = fclose(file->file) == 0 && ok;
    int why = errno;
    file->file = NULL;
    if (ok && keep)
        return kiln_part_keep(&file->part, false, err);
    kiln_part_drop(&file->part);
    return keep ? kiln_fail(err, why == ENOSPC ? KILN_FULL : KILN_IO, "write %s: %s",
                            file->part.path, strerror(why))
                : 0;
}

/* "000012" or "000012-cat", for a search with the number of the job; characters other than letters,
 * digits, '.', '_' and '-' become '_'. A batch of an earlier release can have an index twice: the
 * second is "000012~4711", with its job.
 */
static void name_job(const struct exporting *x, const struct kiln_job *job, char out[192])
{
    int len = x->export->source ? snprintf(out, 192, "%06" PRIu64, job->id)
                                : snprintf(out, 192, "%06u", job->index);
    const char *id = job->custom_id ? job->custom_id : "";
    if (id[0])
        out[len++] = '-';
    for (int i = 0; id[i] && i < NAME_BYTES_MAX; i++) {
        char c = id[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '.' || c == '_' || c == '-';
        out[len++] = plain ? c : '_';
    }
    out[len] = '\0';
    if (x->doubled)
        snprintf(out + len, 192 - (size_t)len, "~%llu", (unsigned long long)job->id);
}

/* Only the picture in full size has the format that was asked for, and metadata. */
static bool is_full(const struct kiln_object_row *object)
{
    return strcmp(object->role, kiln_stored_sizes[KILN_STORED_FULL].name) == 0;
}

/* "full/000012-cat.webp" into out. */
static void relative_path(const struct exporting *x, const struct kiln_job *job,
                          const struct kiln_object_row *object, char out[256])
{
    char name[192];
    name_job(x, job, name);
    bool latent = strcmp(object->role, KILN_ROLE_LATENT) == 0;
    snprintf(out, 256, "%s/%s.%s", latent ? "latents" : object->role, name,
             latent            ? "safetensors.zst"
             : is_full(object) ? kiln_picture_extension(x->export->format)
                               : "webp");
}

/* --- one job ---------------------------------------------------------------------------------- */

static struct kiln_damage *damage_of(const struct exporting *x, const struct kiln_job_row *row,
                                     const struct kiln_object_row *object)
{
    return kiln_damages_find(x->damages, row->job.id, object->role);
}

/* Latents are large and rarely needed, so only on request. */
static bool wanted(const struct exporting *x, const struct kiln_job_row *row,
                   const struct kiln_object_row *object)
{
    return (x->export->latents || strcmp(object->role, KILN_ROLE_LATENT) != 0) &&
           !damage_of(x, row, object);
}

/* The picture in a stored size, NULL if there is none or it is damaged. */
static const struct kiln_object_row *picture(const struct exporting *x,
                                             const struct kiln_job_row *row, int size)
{
    const struct kiln_object_row *object = kiln_row_picture(row, kiln_stored_sizes[size].name);
    return object && wanted(x, row, object) ? object : NULL;
}

#define NAMED_MAX 20 /* damaged objects on stderr; results.jsonl names all */

/* Each damaged object is named once. */
static void name_damages(struct exporting *x, const struct kiln_job_row *row)
{
    for (uint32_t i = 0; i < row->object_count; i++) {
        struct kiln_damage *damage = damage_of(x, row, &row->objects[i]);
        if (!damage || damage->named)
            continue;
        damage->named = true;
        if (x->damages->named++ >= NAMED_MAX)
            continue;
        kiln_bar_end(&x->bar);
        kiln_warn(x->cli, "job %" PRIu64 ": %s: %s", row->job.id, row->objects[i].key, damage->why);
    }
}

static int fetch_objects(struct exporting *x, const struct kiln_job_row *row,
                         struct kiln_error *err)
{
    for (uint32_t i = 0; i < row->object_count; i++) {
        const struct kiln_object_row *object = &row->objects[i];
        struct kiln_fetch_as as = {0};
        char relative[256];
        relative_path(x, &row->job, object, relative);
        const bool fetch = wanted(x, row, object);
        int rc = fetch ? kiln_export_dir_note(x->dir, relative, err)
                       : kiln_export_dir_keep(x->dir, relative, err); /* an older, good copy */
        if (rc == 0 && fetch && is_full(object))
            rc = kiln_describe_picture(row, x->export->format, x->export->embed, &as, err);
        if (rc == 0 && fetch)
            rc = kiln_fetch_add(x->fetch, row->job.id, object, relative, &as, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* A line of results.jsonl: the record of `kiln show`, and the paths of its files. */
static int write_line(struct exporting *x, const struct kiln_job_row *row, struct kiln_error *err)
{
    struct kiln_text *line = &x->line;
    kiln_text_clear(line);
    kiln_record_short(line, row);
    kiln_record_rest(line, row);
    kiln_text_puts(line, ",\"files\":{");
    bool first = true;
    for (uint32_t i = 0; i < row->object_count; i++) {
        if (!wanted(x, row, &row->objects[i]))
            continue;
        char relative[256];
        relative_path(x, &row->job, &row->objects[i], relative);
        kiln_text_printf(line, "%s\"%s\":\"%s\"", first ? "" : ",", row->objects[i].role, relative);
        first = false;
    }
    kiln_text_puts(line, "}");
    bool damaged = false;
    for (uint32_t i = 0; i < row->object_count; i++) {
        if (!damage_of(x, row, &row->objects[i]))
            continue;
        kiln_text_printf(line, "%s\"%s\"", damaged ? "," : ",\"damaged\":[", row->objects[i].role);
        damaged = true;
    }
    kiln_text_puts(line, damaged ? "]" : "");
    kiln_record_images(line, row);
    const struct kiln_object_row *latent = kiln_row_latent(row);
    kiln_json_put(line, "latent:s}\n", latent ? latent->key : NULL);
    if (line->failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a line of results.jsonl");
    if (fwrite(line->at, 1, line->len, x->results.file) != line->len)
        return kiln_fail(err, errno == ENOSPC ? KILN_FULL : KILN_IO, "write %s: %s",
                         x->results.part.path, strerror(errno));
    return 0;
}

/* The pages link the files; a job without a picture is on the first alone. */
static void write_pages(struct exporting *x, const struct kiln_job_row *row)
{
    struct kiln_html_files files = {0};
    for (int i = 0; i < KILN_STORED_SIZES; i++) {
        files.rows[i] = picture(x, row, i);
        if (files.rows[i])
            relative_path(x, &row->job, files.rows[i], files.paths[i]);
    }
    if (x->html.file)
        kiln_html_add(&x->page, row, &files,
                      kiln_row_picture(row, kiln_stored_sizes[KILN_STORED_FULL].name) != NULL);
    if (!x->table || !files.rows[KILN_STORED_FULL])
        return;
    char column[KILN_CROSSTAB_VALUE_BYTES], line[KILN_CROSSTAB_VALUE_BYTES];
    kiln_crosstab_value(row, x->table->x.key, column);
    kiln_crosstab_value(row, x->table->y.key, line);
    struct kiln_cell *cell = kiln_crosstab_cell(x->table, column, line);
    if (!cell || cell->job > row->job.id)
        return;
    cell->job = row->job.id;
    kiln_text_clear(&cell->html);
    kiln_html_cell(&cell->html, &row->job, &files, x->export->html);
}

/* The table is known only after the walk. */
static int write_grid(struct exporting *x, struct kiln_error *err)
{
    struct kiln_text table = {0};
    kiln_crosstab_write(x->table, &table);
    int rc = table.failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for grid.html") : 0;
    if (rc == 0 && !kiln_html_sheet(x->grid.file, x->export->batch, &table))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for grid.html");
    kiln_text_release(&table);
    return rc;
}

/* The smallest size that a sheet does not enlarge; latent-cache jobs have no picture. */
static int add_to_sheet(struct exporting *x, const struct kiln_job_row *row, struct kiln_error *err)
{
    char relative[256], path[PATH_MAX + 256];
    const struct kiln_object_row *object = picture(x, row, KILN_STORED_MEDIUM);
    if (!object)
        object = picture(x, row, KILN_STORED_FULL);
    if (!object)
        return 0;
    relative_path(x, &row->job, object, relative);
    snprintf(path, sizeof path, "%s/%s", x->export->out, relative);
    return kiln_sheet_add(x->sheet, path, row->job.width, row->job.height, err);
}

static int add_answer(struct exporting *x, const struct kiln_job_row *row, struct kiln_error *err)
{
    char relative[256];
    const struct kiln_object_row *object = picture(x, row, KILN_STORED_FULL);
    if (object)
        relative_path(x, &row->job, object, relative);
    return kiln_answers_add(x->answers, row, object ? relative : NULL, err);
}

/* Exports one job; the row is borrowed until this returns. */
static int export_job(void *arg, const struct kiln_job_row *row, struct kiln_error *err)
{
    struct exporting *x = arg;
    if (row->gone && !x->export->all && !x->export->source) {
        x->export->gone++;
        return 0;
    }
    x->doubled = !x->export->source && x->export->jobs > 0 && row->job.index == x->index;
    x->index = row->job.index;
    if (x->damages->count)
        name_damages(x, row);
    int rc = fetch_objects(x, row, err);
    if (rc == 0)
        rc = write_line(x, row, err);
    if (rc == 0 && x->sheet)
        rc = add_to_sheet(x, row, err);
    if (rc == 0 && x->answers)
        rc = add_answer(x, row, err);
    if (rc)
        return rc;
    if (x->html.file || x->table)
        write_pages(x, row);
    x->export->jobs++;
    x->export->states.at[row->job.state]++;
    x->export->pictures += picture(x, row, KILN_STORED_FULL) != NULL;
    kiln_bar_draw(&x->bar, x->total, x->export->jobs + x->export->gone, 0, 0, kiln_now_s());
    return 0;
}

/* --- the batch -------------------------------------------------------------------------------- */

/* Reads the batch in one snapshot: jobs that end meanwhile wait for the next export. */
static int walk_batch(struct kiln_cli *cli, struct exporting *x, struct kiln_ledger *ledger,
                      struct kiln_error *err)
{
    struct kiln_progress progress;
    int rc = kiln_check_batch(cli, ledger, x->export->batch, err);
    if (rc == 0)
        rc = kiln_ledger_progress(ledger, kiln_pool(cli), x->export->batch, &progress, err);
    if (rc)
        return rc;
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        x->total += progress.jobs.at[state];
    x->total -= progress.removed; /* these have no rows */
    return kiln_ledger_results(ledger, kiln_pool(cli), x->export->batch, export_job, x, err);
}

static int walk(struct kiln_cli *cli, struct exporting *x, struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    const struct kiln_export_source *source = x->export->source;
    int rc = kiln_open_reader(cli, &ledger, err);
    if (rc == 0 && source)
        x->total = source->total;
    if (rc == 0)
        rc = source ? source->walk(source->arg, ledger, kiln_pool(cli), export_job, x, err)
                    : walk_batch(cli, x, ledger, err);
    kiln_ledger_close(ledger);
    return rc;
}

/* A file of the export's own; one of an earlier export stays if this one does not write it. */
static int open_own(struct exporting *x, struct part_file *file, const char *name, bool wanted,
                    struct kiln_error *err)
{
    if (!wanted)
        return kiln_export_dir_keep(x->dir, name, err);
    int rc = kiln_export_dir_may_write(x->dir, name, err);
    rc = rc ? rc : kiln_export_dir_note(x->dir, name, err);
    return rc ? rc : part_open(file, x->export->out, name, err);
}

/* Opens the files that grow during the walk, and starts the downloads. */
static int start(struct kiln_cli *cli, struct exporting *x, struct kiln_error *err)
{
    const struct kiln_export *export = x->export;
    int threads = (int)kiln_config_int(cli->config, KILN_KEY_UPLOAD_PARALLEL);
    int rc = kiln_export_dir_begin(x->dir, err);
    rc = rc ? rc : open_own(x, &x->results, "results.jsonl", true, err);
    rc = rc ? rc : open_own(x, &x->html, "index.html", export->html, err);
    rc = rc ? rc : open_own(x, &x->grid, "grid.html", export->grid, err);
    rc = rc ? rc : open_own(x, &x->answer_file, "answers.jsonl", export->answers, err);
    if (rc == 0 && export->answers && !(x->answers = kiln_answers_new()))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for answers.jsonl");
    if (rc == 0 && export->grid && !(x->table = calloc(1, sizeof *x->table)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for grid.html");
    if (rc == 0 && x->table) {
        x->table->x.key = export->x;
        x->table->y.key = export->y;
    }
    if (rc == 0 && export->sheet)
        rc = kiln_export_dir_sheet(x->dir, export->sheet, err);
    if (rc == 0 && export->sheet && !(x->sheet = kiln_sheet_new(export->columns)))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for a contact sheet");
    if (rc == 0)
        rc = kiln_fetch_start(cli->config, export->out, x->dir, threads < 8 ? threads : 8,
                              &x->fetch, err);
    if (rc == 0 && export->html)
        kiln_html_begin(&x->page, x->html.file, export->batch, export->note, export->grid);
    return rc;
}

/* Waits for the downloads, writes the sheet and puts results.jsonl and the page in place.  rc: the
 * result so far; the first error counts.  *ret_again: damages were found, so nothing is in place.
 */
static int finish(struct exporting *x, int rc, bool *ret_again, struct kiln_error *err)
{
    struct kiln_export *export = x->export;
    struct kiln_error late;
    uint64_t fetched = 0;
    size_t known = x->damages->count;
    if (x->fetch && kiln_fetch_finish(x->fetch, &fetched, &export->kept, x->damages, &late) &&
        !rc) {
        *err = late;
        rc = late.code;
    }
    export->kept -= export->fetched < export->kept ? export->fetched : export->kept;
    export->fetched += fetched;
    if (rc == 0 && x->damages->count > NAMED_MAX && export->fetched + export->kept == 0)
        rc = kiln_fail(
            err, KILN_NOT_FOUND,
            "%s has none of the %zu objects of %s%s: check that it is the right store and that it "
            "is mounted",
            kiln_config_text(x->cli->config, KILN_KEY_STORE), x->damages->count,
            export->source ? "" : "batch ", export->batch);
    *ret_again = rc == 0 && x->damages->count > known;
    bool keep = rc == 0 && !*ret_again;
    if (keep && export->html && !kiln_html_end(&x->page, export->pictures, export->jobs))
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for index.html");
    if (keep && rc == 0 && x->table)
        rc = write_grid(x, err);
    if (keep && rc == 0 && x->answers)
        rc = kiln_answers_write(x->answers, x->answer_file.file, err);
    if (keep && rc == 0) /* before a file that lies elsewhere, which is known by the list alone */
        rc = kiln_export_dir_list(x->dir, err);
    if (keep && rc == 0 && x->sheet)
        rc = kiln_sheet_write(x->sheet, export->sheet, err);
    struct part_file *const own[] = {&x->results, &x->html, &x->grid, &x->answer_file};
    int closed = 0;
    for (size_t i = 0; i < sizeof own / sizeof *own && closed == 0; i++)
        closed = part_close(own[i], keep && rc == 0, &late);
    if (rc == 0 && closed) {
        *err = late;
        rc = closed;
    }
    if (keep && rc == 0)
        export->removed = kiln_export_dir_clean(x->dir);
    return rc;
}

/* One walk over the batch; *ret_again as in finish. */
static int export_once(struct kiln_cli *cli, struct kiln_export *export,
                       struct kiln_export_dir *dir, struct kiln_damages *damages, bool *ret_again,
                       struct kiln_error *err)
{
    struct exporting x = {.cli = cli, .export = export, .dir = dir, .damages = damages};
    export->jobs = export->pictures = export->kept = export->gone = 0;
    export->states = (struct kiln_counts){0};
    kiln_bar_init(&x.bar, cli, "export");
    int rc = start(cli, &x, err);
    if (rc == 0)
        rc = walk(cli, &x, err);
    rc = finish(&x, rc, ret_again, err);
    kiln_bar_end(&x.bar);
    kiln_sheet_free(x.sheet);
    kiln_answers_free(x.answers);
    kiln_html_release(&x.page);
    if (x.table)
        kiln_crosstab_release(x.table);
    free(x.table);
    kiln_text_release(&x.line);
    return rc;
}

static struct kiln_export_owner owner_of(const struct kiln_cli *cli,
                                         const struct kiln_export *export,
                                         const struct kiln_progress *progress)
{
    return (struct kiln_export_owner){.batch =
                                          export->source ? export->source->search : export->batch,
                                      .search = export->source != NULL,
                                      .pool = kiln_pool(cli),
                                      .store = kiln_config_text(cli->config, KILN_KEY_STORE),
                                      .created_ms = progress->created_ms};
}

/* Asks the ledger before anything is made. */
static int claim(struct kiln_cli *cli, struct kiln_export *export, struct kiln_export_dir **ret,
                 struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_progress progress = {0};
    const bool search = export->source != NULL;
    int rc = search ? 0 : kiln_open_reader(cli, &ledger, err);
    if (rc == 0 && !search)
        rc = kiln_check_batch(cli, ledger, export->batch, err);
    if (rc == 0 && !search)
        rc = kiln_ledger_progress(ledger, kiln_pool(cli), export->batch, &progress, err);
    kiln_ledger_close(ledger);
    if (rc)
        return rc;
    export->whole = progress.whole;
    const struct kiln_export_owner owner = owner_of(cli, export, &progress);
    return kiln_export_dir_open(export->out, &owner, export->force, ret, err);
}

int kiln_export_check(struct kiln_cli *cli, const struct kiln_export *export,
                      struct kiln_error *err)
{
    struct kiln_ledger *ledger = NULL;
    struct kiln_progress progress = {0};
    const bool named = export->batch && !export->force;
    int rc = named ? kiln_open_reader(cli, &ledger, err) : KILN_UNAVAILABLE;
    if (rc == 0)
        rc = kiln_ledger_progress(ledger, kiln_pool(cli), export->batch, &progress, err);
    kiln_ledger_close(ledger);
    const struct kiln_export_owner owner = owner_of(cli, export, &progress);
    const bool known = rc == 0 || rc == KILN_NOT_FOUND; /* else the export will ask again */
    return kiln_export_dir_check(export->out, known ? &owner : NULL, export->force, export->sheet,
                                 err);
}

int kiln_export_batch(struct kiln_cli *cli, struct kiln_export *export, struct kiln_error *err)
{
    struct kiln_damages damages = {0};
    struct kiln_export_dir *dir = NULL;
    bool again = true;
    export->fetched = 0;
    export->embed = strcmp(kiln_config_text(cli->config, KILN_KEY_EMBED_METADATA), "on") == 0;
    int rc = claim(cli, export, &dir, err);
    while (rc == 0 && again) /* ends: each object is found damaged at most once */
        rc = export_once(cli, export, dir, &damages, &again, err);
    kiln_export_dir_close(dir);
    export->damaged = damages.count;
    kiln_damages_release(&damages);
    return rc;
}
