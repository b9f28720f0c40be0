/* html.c - see html.h.
 *
 * The grid is justified without script: every tile grows from a basis proportional to its aspect
 * ratio, so a row's tiles get one height and fill the width.  The sizes of thumbnails are known, so
 * nothing moves while they load.  Missing pictures stand in the grid too, as what they are.
 */
#include "scheduler/cli/jobs/export/html.h"

#include <string.h>

#include "schemas/utf8.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src 'self' "
    "file: "
    "data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n";

static const char style[] =
    "<style>\n"
    ":root{--bg:#faf9f7;--fg:#1d1b19;--dim:#6d6862;--line:#e4e0da;--card:#fff;--accent:#b4532a;"
    "--bad:#b3261e}\n"
    "@media (prefers-color-scheme:dark){:root{--bg:#141312;--fg:#ece8e3;--dim:#9b958d;"
    "--line:#2c2a27;--card:#1d1b1a;--accent:#e58a5b;--bad:#f2766b}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.45 system-ui,-apple-system,"
    "'Segoe UI',Roboto,sans-serif}\n"
    "header{position:sticky;top:0;z-index:2;display:flex;gap:1rem;align-items:baseline;"
    "flex-wrap:wrap;padding:.9rem 1.2rem;background:color-mix(in srgb,var(--bg) 88%,transparent);"
    "backdrop-filter:blur(10px);border-bottom:1px solid var(--line)}\n"
    "h1{font-size:1.1rem;font-weight:650;margin:0;overflow-wrap:anywhere}\n"
    "#count{color:var(--dim);font-variant-numeric:tabular-nums}\n"
    "#search{margin-left:auto;min-width:min(22rem,100%);padding:.45rem .8rem;border-radius:99px;"
    "border:1px solid var(--line);background:var(--card);color:inherit;font:inherit}\n"
    "#search:focus{outline:2px solid var(--accent);outline-offset:1px}\n"
    "#note{margin:0;padding:.9rem 1.2rem 0;color:var(--dim);max-width:90ch}\n"
    "#grid{display:flex;flex-wrap:wrap;gap:10px;padding:12px 1.2rem 3rem}\n"
    "#grid::after{content:'';flex:1e9 1 0}\n"
    "figure{margin:0;position:relative;overflow:hidden;border-radius:8px;background:var(--line);"
    "flex:calc(var(--r)*100) 1 calc(var(--r)*240px);max-width:calc(var(--r)*420px)}\n"
    "figure[hidden]{display:none}\n"
    "figure>a{display:block}\n"
    "figure img{display:block;width:100%;height:auto;aspect-ratio:var(--r);object-fit:cover;"
    "transition:transform .25s}\n"
    "figure:hover img{transform:scale(1.02)}\n"
    "figcaption{position:absolute;inset:auto 0 0 0;padding:2.2rem .75rem .6rem;color:#fff;"
    "font-size:13px;line-height:1.35;background:linear-gradient(transparent,rgba(0,0,0,.78));"
    "opacity:0;transition:opacity .18s;pointer-events:none}\n"
    "figure:hover figcaption,figure:focus-within figcaption{opacity:1}\n"
    "figcaption p{margin:0;display:-webkit-box;-webkit-box-orient:vertical;-webkit-line-clamp:3;"
    "overflow:hidden}\n"
    "figcaption small{opacity:.8;font-variant-numeric:tabular-nums}\n"
    "figure.missing{display:flex;flex-direction:column;justify-content:center;padding:1rem;"
    "min-height:180px;background:var(--card);border:1px dashed "
    "var(--line);font-size:13px;gap:.4rem}\n"
    "figure.missing b{color:var(--bad)}\nfigure.missing p{margin:0}\n"
    "figure.missing .error{color:var(--dim);overflow-wrap:anywhere}\n"
    "#none{padding:3rem 1.2rem;color:var(--dim);text-align:center}\n"
    "dialog{border:0;padding:0;margin:0;max-width:none;max-height:none;width:100vw;height:100vh;"
    "background:rgba(12,11,10,.95);color:#eee}\n"
    "dialog[open]{display:grid;grid-template-rows:1fr auto}\n"
    "#stage{min-height:0;display:flex;align-items:center;justify-content:center;padding:1rem}\n"
    "#stage img{max-width:100%;max-height:100%;object-fit:contain;border-radius:4px}\n"
    "#about{display:flex;gap:1rem;align-items:flex-end;padding:.8rem 1.2rem 1.2rem;"
    "justify-content:space-between}\n"
    "#about p{margin:0 0 "
    ".25rem;max-width:75ch;max-height:7.5em;overflow:auto;white-space:pre-wrap}\n"
    "#about small{color:#a8a29a;font-variant-numeric:tabular-nums}\n"
    "#about nav{display:flex;gap:.4rem;flex:none}\n"
    "button,.button{border:1px solid #555;border-radius:99px;padding:.35rem "
    ".9rem;background:#2a2826;"
    "color:#eee;font:inherit;font-size:13px;cursor:pointer;text-decoration:none}\n"
    "button:hover,.button:hover{background:#3a3734}\n"
    "@media (hover:none){figcaption{opacity:1;padding-top:1.4rem}figcaption "
    "p{-webkit-line-clamp:1}}\n"
    "@media (max-width:560px){#grid{padding:8px;gap:6px}figure{flex-basis:calc(var(--r)*150px)}}\n"
    "</style>\n";

static const char script[] =
    "<script>\n"
    "'use strict';\n"
    "const tiles=[...document.querySelectorAll('#grid figure')];\n"
    "const texts=tiles.map(t=>t.textContent.toLowerCase());\n"
    "const pictures=()=>tiles.filter(t=>!t.hidden&&t.dataset.full);\n"
    "const box=document.getElementById('box'),image=document.getElementById('large');\n"
    "const at=id=>document.getElementById(id);\n"
    "let shown=null;\n"
    "function filter(){\n"
    " const words=at('search').value.toLowerCase().split(/\\s+/).filter(Boolean);\n"
    " let n=0;\n"
    " tiles.forEach((t,i)=>{t.hidden=!words.every(w=>texts[i].includes(w));n+=!t.hidden;});\n"
    " at('none').hidden=n>0;\n"
    " at('count').textContent=words.length?n+' of '+tiles.length:at('count').dataset.all;\n"
    "}\n"
    "function show(tile){\n"
    " if(!tile)return;\n"
    " shown=tile;image.src=tile.dataset.full;\n"
    " image.alt=at('prompt').textContent=tile.querySelector('p').textContent;\n"
    " at('facts').textContent=tile.querySelector('small').textContent;\n"
    " at('open').href=tile.dataset.full;\n"
    " if(!box.open)box.showModal();\n"
    "}\n"
    "function step(by){const "
    "all=pictures();show(all[(all.indexOf(shown)+by+all.length)%all.length]);"
    "}\n"
    "at('grid').addEventListener('click',e=>{\n"
    " const tile=e.target.closest('figure[data-full]');\n"
    " if(!tile||e.ctrlKey||e.metaKey||e.shiftKey||e.button)return;\n"
    " e.preventDefault();show(tile);\n"
    "});\n"
    "at('stage').addEventListener('click',()=>box.close());\n"
    "at('close').addEventListener('click',()=>box.close());\n"
    "at('next').addEventListener('click',()=>step(1));\n"
    "at('back').addEventListener('click',()=>step(-1));\n"
    "box.addEventListener('close',()=>{image.removeAttribute('src');\n"
    " if(shown)shown.querySelector('a').focus();});\n"
    "document.addEventListener('keydown',e=>{\n"
    " if(box.open&&e.key==='ArrowRight')step(1);\n"
    " else if(box.open&&e.key==='ArrowLeft')step(-1);\n"
    " else if(!box.open&&e.key==='/'&&document.activeElement!==at('search')){\n"
    "  e.preventDefault();at('search').focus();}\n"
    "});\n"
    "at('search').addEventListener('input',filter);\n"
    "filter();\n"
    "</script>\n";

/* Text into an element or a quoted attribute.  What would steer the page around it is written as
 * JSON would write it; line ends and tabs are blanks here anyway. */
static void escape(FILE *out, const char *text)
{
    for (; *text; text++) {
        size_t length = kiln_utf8_length(text, strnlen(text, 4));
        int steers = length ? kiln_utf8_steering(text, length) : -1;
        if (steers >= 0 && !strchr("\n\t", *text)) {
            fprintf(out, "\\u%04x", (unsigned)steers);
            text += length - 1;
            continue;
        }
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

void kiln_html_begin(FILE *out, const char *batch, const char *note)
{
    fputs(head, out);
    fputs("<title>", out);
    escape(out, batch);
    fputs("</title>\n", out);
    fputs(style, out);
    fputs("</head>\n<body>\n<header><h1>", out);
    escape(out, batch);
    fputs("</h1><span id=\"count\"></span>"
          "<input id=\"search\" type=\"search\" placeholder=\"Search prompts  ( / )\" "
          "aria-label=\"Search prompts\" autocomplete=\"off\"></header>\n",
          out);
    if (note) {
        fputs("<p id=\"note\">", out);
        escape(out, note);
        fputs("</p>\n", out);
    }
    fputs("<main id=\"grid\">\n", out);
}

/* What stands under a prompt; the search finds it too. */
static void facts(FILE *out, const struct kiln_job_row *row)
{
    const struct kiln_job *job = &row->job;
    char set[KILN_LORA_SET_MAX];
    fprintf(out, "<small>%u&times;%u &middot; seed %llu &middot; %u steps", job->width, job->height,
            (unsigned long long)job->seed, job->steps);
    if (job->style) {
        fputs(" &middot; ", out);
        escape(out, job->style);
    }
    if (kiln_lora_set_text(job->loras, job->lora_count, set, sizeof set)) {
        fputs(" &middot; ", out);
        escape(out, set);
    }
    if (job->custom_id) {
        fputs(" &middot; <bdi>", out);
        escape(out, job->custom_id);
        fputs("</bdi>", out);
    } else {
        fprintf(out, " &middot; #%u", job->index);
    }
    fputs("</small>", out);
}

/* A candidate of the srcset with its true width, so that a dense screen gets the larger one. */
static void source(FILE *out, const char *path, uint32_t longest, const struct kiln_job *job,
                   bool *first)
{
    if (!path[0])
        return;
    uint32_t side = job->width > job->height ? job->width : job->height;
    uint32_t width =
        side > longest ? (uint32_t)((uint64_t)job->width * longest / side) : job->width;
    fputs(*first ? " srcset=\"" : ", ", out);
    escape(out, path);
    fprintf(out, " %uw", width);
    *first = false;
}

void kiln_html_picture(FILE *out, const struct kiln_job_row *row,
                       const struct kiln_html_files *files)
{
    const struct kiln_job *job = &row->job;
    const char *thumbnail = files->medium[0]  ? files->medium
                            : files->small[0] ? files->small
                                              : files->full;
    bool first = true;
    fprintf(out, "<figure style=\"--r:%.4f\" data-full=\"",
            (double)job->width / (double)job->height);
    escape(out, files->full);
    fputs("\"><a href=\"", out);
    escape(out, files->full);
    fputs("\"><img loading=\"lazy\" decoding=\"async\" alt=\"\" src=\"", out);
    escape(out, thumbnail);
    fprintf(out, "\" width=\"%u\" height=\"%u\" sizes=\"%.0fpx\"", job->width, job->height,
            300.0 * (double)job->width / (double)job->height);
    source(out, files->small, 256, job, &first);
    source(out, files->medium, 512, job, &first);
    if (job->width <= 512 && job->height <= 512)
        source(out, files->medium[0] ? "" : files->full, 512, job, &first);
    fputs(first ? "></a><figcaption><p dir=\"auto\">" : "\"></a><figcaption><p dir=\"auto\">", out);
    escape(out, job->prompt);
    fputs("</p>", out);
    facts(out, row);
    fputs("</figcaption></figure>\n", out);
}

void kiln_html_missing(FILE *out, const struct kiln_job_row *row, bool damaged)
{
    const struct kiln_job *job = &row->job;
    const char *done =
        damaged ? "its picture is missing from the store or damaged there" : "no picture asked for";
    fprintf(out, "<figure class=\"missing\" style=\"--r:%.4f\"><b>%s</b><p dir=\"auto\">",
            (double)job->width / (double)job->height,
            job->state == KILN_JOB_DONE ? done : kiln_job_state_name(job->state));
    escape(out, job->prompt);
    fputs("</p>", out);
    if (row->error && job->state != KILN_JOB_DONE) {
        fputs("<p class=\"error\">", out);
        escape(out, row->error);
        fputs("</p>", out);
    }
    facts(out, row);
    fputs("</figure>\n", out);
}

void kiln_html_end(FILE *out, uint64_t pictures, uint64_t jobs)
{
    char count[64];
    if (pictures == jobs)
        snprintf(count, sizeof count, "%llu picture%s", (unsigned long long)pictures,
                 pictures == 1 ? "" : "s");
    else
        snprintf(count, sizeof count, "%llu of %llu pictures", (unsigned long long)pictures,
                 (unsigned long long)jobs);
    fputs("</main>\n<p id=\"none\" hidden>No prompt has these words.</p>\n"
          "<dialog id=\"box\"><div id=\"stage\"><img id=\"large\" alt=\"\"></div>"
          "<div id=\"about\"><div><p id=\"prompt\"></p><small id=\"facts\"></small></div>"
          "<nav><button id=\"back\" aria-label=\"previous\">&larr;</button>"
          "<button id=\"next\" aria-label=\"next\">&rarr;</button>"
          "<a id=\"open\" class=\"button\" target=\"_blank\">Open</a>"
          "<button id=\"close\">Close</button></nav></div></dialog>\n",
          out);
    fprintf(out, "<script>document.getElementById('count').dataset.all='%s'</script>\n", count);
    fputs(script, out);
    fputs("</body>\n</html>\n", out);
}
