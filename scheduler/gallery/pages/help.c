/* help.c - /help: how to search, and the keys; and /robots.txt. */
#include "scheduler/gallery/pages/site.h"
#include "scheduler/gallery/parts/layout.h"

static const char *const rows[][2] = {
    {"red star", "both words, in any order"},
    {"\"red star\"", "exactly this phrase"},
    {"red -star", "red, but not star"},
    {"wat", "words that begin with it: the last word may be unfinished"},
};

static const char *const keys[][2] = {
    {"/", "go to the search"},
    {"\xe2\x86\x90 \xe2\x86\x91 \xe2\x86\x92 \xe2\x86\x93", "move between pictures"},
    {"Home, End", "first and last picture"},
    {"Enter", "open the picture"},
    {"Esc", "close it"},
    {"f", "star, or remove the star"},
    {"c", "copy the prompt"},
    {"j", "copy the job line"},
    {"r", "copy the command"},
    {"?", "this page"},
};

static void add_table(struct kiln_text *out, const char *const (*lines)[2], size_t count,
                      const char *tag)
{
    kiln_text_puts(out, "<dl class=\"keys\">");
    for (size_t i = 0; i < count; i++)
        kiln_text_printf(out, "<div><dt><%s>%s</%s></dt><dd>%s</dd></div>", tag, lines[i][0], tag,
                         lines[i][1]);
    kiln_text_puts(out, "</dl>");
}

int kiln_gallery_help(struct kiln_web_visit *visit, struct kiln_error *err)
{
    struct kiln_text *out = &visit->reply.body;
    (void)err;
    kiln_gallery_begin(visit, &(struct kiln_gallery_page_head){.title = "Keys and search"});
    kiln_text_puts(out, "<h1>Keys and search</h1><h2>Search</h2><p>");
    kiln_text_puts(out, kiln_keeper_says(kiln_gallery_app(visit)->keeper));
    kiln_text_puts(out, " Quotes and a minus find only what has the words. Newest first means by "
                        "job number: a picture whose job waited a long time is below those of "
                        "later jobs. The feed of a list has its newest pictures, the newest first, "
                        "also where its address is that of a later page; by meaning a list has its "
                        "200 nearest. "
                        "Announcements of new pictures look at words alone.</p>");
    add_table(out, rows, sizeof rows / sizeof *rows, "code");
    kiln_text_puts(out, "<h2>Keys</h2><p>Letters work while a picture or the list of pictures has "
                        "the focus.</p>");
    add_table(out, keys, sizeof keys / sizeof *keys, "kbd");
    kiln_text_puts(out,
                   "<h2>Levels</h2><p>A picture is rated clear, unsure, mature or explicit: by a "
                   "rule about words of its prompt, by a classifier, or by a person, who "
                   "counts before both. Rules and classifiers are often wrong, and a picture "
                   "that was not checked has no level. ");
    kiln_text_puts(out,
                   kiln_gallery_app(visit)->review
                       ? "<a href=\"/review\">Review</a> has those that wait for a person; "
                         "there <kbd>s</kbd> says clear, <kbd>h</kbd> hides, <kbd>u</kbd> undoes."
                       : "Nobody decides on levels here (setting "
                         "<code>gallery_review</code>).");
    kiln_text_puts(out, "</p>");
    kiln_text_puts(out, "<h2>Scripts</h2><p>Every list is at <code>/v1/pictures</code> as JSON, "
                        "with the same arguments; <a href=\"/v1/openapi.json\">openapi.json</a> "
                        "describes it.</p>");
    kiln_gallery_end(visit);
    return 0;
}

int kiln_gallery_robots(struct kiln_web_visit *visit, struct kiln_error *err)
{
    (void)err;
    visit->reply.type = "text/plain; charset=utf-8";
    visit->reply.cache = "public, max-age=86400";
    kiln_text_puts(&visit->reply.body, "User-agent: *\nDisallow: /\n");
    return 0;
}
