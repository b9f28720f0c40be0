/* names.c - the names that the form of filters proposes: batches, LoRAs, models, styles and tenants
 * of the newest pictures, as lists of options. */
#include <stdio.h>
#include <string.h>

#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/app.h"
#include "scheduler/gallery/parts/html.h"
#include "scheduler/gallery/parts/kept.h"

#define NAMES_MAX 30  /* of a filter */
#define KEPT_MS 20000 /* how long they are shown before they are read again */

struct lists {
    struct kiln_text *out;
    char filter[16]; /* of the list in work; "": none */
};

static int add_name(void *arg, const char *filter, const char *name, struct kiln_error *err)
{
    struct lists *lists = arg;
    (void)err;
    if (strcmp(filter, lists->filter) != 0) {
        kiln_text_printf(lists->out, "%s<datalist id=\"names-%s\">",
                         lists->filter[0] ? "</datalist>" : "", filter);
        snprintf(lists->filter, sizeof lists->filter, "%s", filter);
    }
    kiln_text_puts(lists->out, "<option value=\"");
    kiln_html_attr(lists->out, name);
    kiln_text_puts(lists->out, "\">");
    return 0;
}

void kiln_gallery_add_names(struct kiln_web_visit *visit)
{
    static struct kiln_gallery_kept kept = KILN_GALLERY_KEPT;
    const struct kiln_gallery_filter filter = kiln_gallery_all(kiln_gallery_app(visit));
    struct kiln_text *out = &visit->reply.body, text = {0};
    struct lists lists = {.out = &text};
    struct kiln_error unread;
    if (kiln_gallery_kept_add(&kept, out))
        return;
    int rc = kiln_gallery_names(visit->session, &filter, NAMES_MAX, add_name, &lists, &unread);
    kiln_text_puts(&text, lists.filter[0] ? "</datalist>\n" : "\n");
    if (rc)
        kiln_text_release(&text);
    kiln_gallery_keep(&kept, &text, KEPT_MS, out);
}
