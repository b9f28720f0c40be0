/* tiles.h - pictures as a grid of links. */
#ifndef KILN_GALLERY_TILES_H
#define KILN_GALLERY_TILES_H

#include "scheduler/gallery/parts/app.h"

/* A grid that is being written. */
struct kiln_gallery_grid {
    struct kiln_web_visit *visit;
    uint32_t count;
    uint64_t first, last; /* jobs */
    uint64_t beside;      /* set after begin: tiles lead to a comparison with this job; 0: none */
};

/* "<ul ...>", tiles, "</ul>".  The first tiles load at once, the others when they come near. */
void kiln_gallery_grid_begin(struct kiln_gallery_grid *grid, struct kiln_web_visit *visit,
                             const char *label);
/* A kiln_each_tile; arg is the grid. */
int kiln_gallery_grid_add(void *arg, const struct kiln_gallery_tile *tile, struct kiln_error *err);
void kiln_gallery_grid_end(struct kiln_gallery_grid *grid);

/* The text that stands for a picture: the request, not what can be seen. */
void kiln_gallery_alt(struct kiln_text *out, const char *prompt);

#endif
