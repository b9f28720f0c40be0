/* names.c - which values of filters the newest pictures have: for people who do not know them. */
#include "storage/ledger/gallery/question.h"

/* Pictures that are counted, and those that are looked at in search of them: hidden ones and those
 * of other pools are in between. */
#define NEWEST "2000"
#define LOOKED_AT "20000"

/* $17: of each kind the most frequent. */
#define NAMES                                                                                      \
    "WITH newest AS MATERIALIZED (SELECT i.batch_id, i.tenant, i.model_name, i.style, i.loras"     \
    "  FROM (SELECT * FROM image ORDER BY job_id DESC LIMIT " LOOKED_AT ") i"                      \
    "  WHERE " KILN_GALLERY_SHOWN " ORDER BY i.job_id DESC LIMIT " NEWEST "),"                     \
    " named AS (SELECT 'batch' AS kind, b.name FROM (SELECT DISTINCT batch_id FROM newest) n"      \
    "   JOIN batch b ON b.id = n.batch_id"                                                         \
    "  UNION ALL SELECT 'tenant', tenant FROM newest UNION ALL SELECT 'model', model_name"         \
    "   FROM newest UNION ALL SELECT 'style', style FROM newest UNION ALL SELECT 'lora',"          \
    "   l ->> 'name' FROM newest CROSS JOIN LATERAL jsonb_array_elements(loras) l),"               \
    " ranked AS (SELECT kind, name, row_number() OVER (PARTITION BY kind"                          \
    "   ORDER BY count(*) DESC, name) AS place FROM named WHERE name <> '' GROUP BY kind, name)"   \
    " SELECT kind, name FROM ranked WHERE place <= $17::integer ORDER BY kind, name"

static int read_name(void *arg, const PGresult *rows, int row, struct kiln_error *err)
{
    const struct kiln_caller *caller = arg;
    return ((kiln_each_filter_name *)caller->each)(caller->arg, kiln_row_text(rows, row, 0),
                                                   kiln_row_text(rows, row, 1), err);
}

int kiln_gallery_names(struct kiln_ledger *session, const struct kiln_gallery_filter *filter,
                       uint32_t max, kiln_each_filter_name *each, void *arg, struct kiln_error *err)
{
    static const struct kiln_statement statement = {KILN_PLANNED_ONCE("gallery_names"), NAMES};
    struct kiln_params params = {0};
    kiln_gallery_bind(&params, filter, 0);
    KILN_BIND(&params, max);
    return kiln_ledger_run_each(session, &statement, &params, read_name, KILN_CALLER(each, arg),
                                err);
}
