#!/bin/bash
# The include rule, held for every source file of the product: which folder may include which.
#
#     schemas <- storage <- scheduler <- scheduler/cli        storage <- worker
#     schemas <- kernels <- pipeline <- worker                storage/formats <- pipeline
#     pipeline/embed <- scheduler (kernels/vectors <- scheduler/router); pipeline/lora/file <- scheduler/cli/lora
#
# Between the rooms of a folder the order is one-way as well.  Nothing includes worker/ or scheduler/
# from outside. Tests may include anything.
set -u
cd "${KILN_SOURCE:?}" || exit 1

# A row for each folder that holds source: what its files may include beside their own folder.  A
# folder's name stands for the files in it, with a slash at its end for its rooms too, and a header's
# name for that header.
table='
schemas:                    schemas/text schemas/job/mode.h
schemas/text:               schemas/error.h
schemas/words:              schemas schemas/text
schemas/reuse:              schemas schemas/text schemas/words
schemas/config:             schemas schemas/text
schemas/telemetry:          schemas schemas/text
schemas/job:                schemas schemas/text schemas/config
schemas/wire:               schemas schemas/text schemas/job schemas/reuse

kernels:                    schemas/
kernels/rows:               schemas/ kernels
kernels/products:           schemas/ kernels
kernels/attention:          schemas/ kernels
kernels/pictures:           schemas/ kernels
kernels/vectors:            schemas/ kernels

storage/formats:            schemas/
storage/formats/pictures:   schemas/ storage/formats
storage/formats/card:       schemas/ storage/formats
storage/daemon:             schemas/ storage/formats
storage/objects:            schemas/ storage/daemon storage/formats
storage/objects/s3:         schemas/ storage/daemon storage/formats storage/objects
storage/bus:                schemas/ storage/daemon storage/formats
storage/webhook:            schemas/ storage/formats
storage/ledger:             schemas/ storage/daemon
storage/ledger/read:        schemas/ storage/ledger
storage/ledger/gallery:     schemas/ storage/ledger storage/ledger/read
storage/ledger/safety:      schemas/ storage/ledger storage/ledger/read storage/ledger/gallery
storage/ledger/queue:       schemas/ storage/ledger storage/ledger/read
storage/ledger/lora:        schemas/ storage/ledger
storage/ledger/upkeep:      schemas/ storage/ledger storage/ledger/read storage/objects

scheduler/policy:           schemas/
scheduler/sim:              schemas/ scheduler/policy
scheduler/intake:           schemas/ storage/ scheduler/router scheduler/embedding
scheduler/router:           schemas/ kernels/vectors
scheduler/embedding:        schemas/ storage/formats scheduler/router pipeline/embed
scheduler/cache:            schemas/ storage/
scheduler:                  schemas/ storage/ scheduler/policy scheduler/intake scheduler/cache scheduler/embedding
scheduler:                  pipeline/embed/

scheduler/gallery/alike:    schemas/ storage/ kernels/vectors scheduler/policy scheduler/gallery/background.h
scheduler/gallery/meaning:  schemas/ storage/ pipeline/embed/ kernels/vectors scheduler/policy scheduler/sim

scheduler/cli/core:         schemas/ storage/
scheduler/cli/core/output:  schemas/ storage/ scheduler/cli/core
scheduler/cli/stack:        schemas/ storage/ scheduler/cli/core/
scheduler/cli/jobs/enqueue: schemas/ storage/ scheduler/cli/core/
scheduler/cli/jobs/cache:   schemas/ storage/ scheduler/cli/core/ scheduler/cli/fleet/control.h scheduler/cli/jobs/enqueue scheduler/cache
scheduler/cli/jobs/export:  schemas/ storage/ scheduler/cli/core/
scheduler/cli/jobs/redraw:  schemas/ storage/ scheduler/cli/core/ scheduler/cli/jobs/enqueue
scheduler/cli/fleet:        schemas/ storage/ scheduler/cli/core/ scheduler/cli/stack scheduler/cli/jobs/enqueue
scheduler/cli/fleet:        scheduler/pauses.h scheduler/intake/window.h
scheduler/cli/fleet/watch:  schemas/ storage/ scheduler/cli/core/ scheduler/cli/fleet
scheduler/cli/jobs:         schemas/ storage/ scheduler/cli/core/ scheduler/cli/stack scheduler/cli/fleet
scheduler/cli/jobs:         scheduler/cli/jobs/ scheduler/pauses.h scheduler/policy/bounds.h
scheduler/cli/lora:         schemas/ storage/ scheduler/cli/core/ scheduler/router scheduler/embedding pipeline/lora/file
scheduler/cli/lora:         scheduler/cli/fleet/pause.h
scheduler/cli/upkeep:       schemas/ storage/ scheduler/cli/core/ scheduler/cli/stack scheduler/cli/fleet
scheduler/bench:            schemas/ storage/ scheduler/cli/core/ scheduler/cli/stack scheduler/cli/fleet
scheduler/bench:            scheduler/cli/jobs/enqueue scheduler/cli/jobs scheduler/cli/verb_tables.h
scheduler/bench:            scheduler/policy scheduler/sim scheduler/cache pipeline/embed
scheduler/bench/routing:    schemas/ storage/ scheduler/bench/bench.h scheduler/cli/core scheduler/cli/lora/open.h
scheduler/bench/routing:    scheduler/router scheduler/embedding pipeline/embed pipeline/embed/captions
scheduler/bench/gallery:    schemas/ storage/ scheduler/bench/bench.h scheduler/cli/core/
scheduler/bench/gallery:    pipeline/embed pipeline/embed/index
scheduler/cli:              schemas/ storage/ scheduler/cli/
scheduler/gallery/web:      schemas/ storage/
scheduler/gallery/safety:   schemas/ storage/ scheduler/cli/core/ pipeline/embed/classify
scheduler/gallery/parts:    schemas/ storage/ scheduler/gallery/web scheduler/gallery/meaning scheduler/gallery/alike
scheduler/gallery/pages:    schemas/ storage/ scheduler/gallery/web scheduler/gallery/parts scheduler/gallery/meaning scheduler/cli/core/output/crosstab.h
scheduler/gallery/pages:    scheduler/gallery/alike scheduler/cli/fleet/trouble.h
scheduler/gallery/jobs:     schemas/ storage/ scheduler/gallery/web scheduler/gallery/parts scheduler/gallery/meaning scheduler/gallery/alike
scheduler/gallery/jobs:     scheduler/cli/core scheduler/cli/fleet scheduler/cli/jobs/enqueue
scheduler/gallery/pages:    scheduler/gallery/jobs
scheduler/gallery:          schemas/ storage/ scheduler/cli/core scheduler/cli/verb_tables.h scheduler/cli/jobs/export/export.h scheduler/gallery/

pipeline/embed/tokens:      schemas/ storage/formats
pipeline/embed/captions:    schemas/ kernels/ storage/formats pipeline/embed pipeline/diffusionz_captions.h
pipeline/embed/classify:    schemas/ pipeline/diffusionz_classify.h
pipeline/embed:             schemas/ kernels/ storage/formats pipeline/embed/tokens

pipeline/torch:             schemas/ kernels pipeline/torch/cuda/plugin.hpp
pipeline/torch/cpu:         schemas/ kernels/ pipeline/torch
pipeline/torch/ops:         schemas/ kernels/ pipeline/torch pipeline/torch/cpu
pipeline/torch/ops:         pipeline/torch/cuda/plugin.hpp
pipeline/torch/cuda:        schemas/ kernels/ pipeline/torch
pipeline/embed/index:       schemas/ kernels kernels/vectors
pipeline/weights:           schemas/ kernels/ storage/formats pipeline/torch pipeline/diffusionz_batch.h
pipeline/model:             schemas/ kernels/ storage/formats storage/formats/card pipeline/torch pipeline/weights
pipeline/vision:            schemas/ storage/formats pipeline/torch pipeline/weights pipeline/model
pipeline/text:              schemas/ kernels/ storage/formats pipeline/torch pipeline/weights pipeline/model
pipeline/lora:              schemas/ kernels/ storage/formats pipeline/torch pipeline/weights pipeline/model
pipeline/lora:              pipeline/diffusionz_batch.h pipeline/lora/file
pipeline/lora/file:         schemas/ kernels storage/formats
pipeline/engine:            schemas/ kernels/ storage/formats storage/formats/card pipeline/torch pipeline/weights
pipeline/engine:            pipeline/model pipeline/text pipeline/lora pipeline/diffusionz_batch.h
pipeline:                   schemas/ kernels/ storage/formats storage/formats/pictures pipeline/
pipeline/bench:             schemas/ kernels/ storage/formats pipeline/

worker/engine:              schemas/ storage/ kernels/ pipeline
worker/state:               schemas/ storage/ kernels/ pipeline worker/engine
worker/stages:              schemas/ storage/ kernels/ pipeline worker/engine worker/state
worker/verbs:               schemas/ storage/ kernels/ pipeline worker/engine
worker/bench:               schemas/ storage/ kernels/ pipeline/ worker/engine worker/state worker/verbs
worker/bench:               worker/numa.h worker/sigbus.h
worker/bench/coarse:        schemas/ storage/ kernels/ pipeline/ worker/engine worker/state worker/verbs
worker/bench/coarse:        worker/bench worker/bench/measured
worker/bench/teleport:      schemas/ storage/ pipeline/ worker/engine worker/verbs
worker/bench/teleport:      worker/bench worker/bench/measured
worker/bench/measured:      schemas/ storage/ pipeline/bench worker/state
worker/bench/captions:      schemas/ pipeline/ worker/verbs worker/bench
worker:                     schemas/ storage/ worker/
'

files() { find schemas kernels storage pipeline scheduler worker -name '*.[ch]' -o -name '*.cpp' \
    -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh'; }

{
    echo "$table" | sed -n 's/^\([^:]*\): *\(.*\)/table \1 \2/p'
    files | sed 's/^/file /'
    files | xargs grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' |
        sed -E 's/^([^:]*):([0-9]+):[^"]*"([^"]*)".*/include \1 \2 \3/'
} | awk '
    function folder(path) { sub("/[^/]*$", "", path); return path }
    function complain(text) { print text; bad++ }
    $1 == "table" { rows[$2] = rows[$2] " " $2; for (i = 3; i <= NF; i++) rows[$2] = rows[$2] " " $i }
    $1 == "file" {
        there[$2] = 1
        if (!(folder($2) in rows) && !told[folder($2)]++)
            complain(folder($2) ": holds source and has no row in the table of this test")
    }
    $1 == "include" && !($4 in there) {
        complain($2 ":" $3 ": \"" $4 "\" is not written from the root of the tree")
    }
    $1 == "include" && ($4 in there) {
        seen++
        count = split(rows[folder($2)], may)
        fine = 0
        for (i = 1; i <= count; i++)
            if (may[i] == $4 || may[i] == folder($4) || (may[i] ~ "/$" && index($4, may[i]) == 1))
                fine = 1
        if (!fine)
            complain($2 ":" $3 ": " folder($2) " may not include " $4 " (allowed:" rows[folder($2)] ")")
    }
    END {
        if (bad || !seen) { print bad + 0 " includes of " seen + 0 " break the rule"; exit 1 }
        print "all " seen " includes follow the rule"
    }'
