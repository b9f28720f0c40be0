-- 0004_costs.sql - what the scheduler has learned about seconds (schemas/cost.h), so that a new
-- leader does not begin with guesses.  Written now and then, a few rows at a time; losing it costs
-- nothing but a while of worse estimates.
--
--   kind  0 batch, 1 size, 2 speed, 3 cold load, 4 warm load, 5 capture

CREATE TABLE cost (
    mean       double precision NOT NULL,
    spread     double precision NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    samples    integer NOT NULL,
    width      integer NOT NULL,
    height     integer NOT NULL,
    steps      integer NOT NULL,
    jobs       integer NOT NULL,
    kind       smallint NOT NULL,
    guided     boolean NOT NULL,
    pool       text NOT NULL,
    model      text NOT NULL,
    device     text NOT NULL,               -- class of hardware; '' any
    lora_set   text NOT NULL,
    PRIMARY KEY (pool, kind, model, device, lora_set, width, height, steps, jobs, guided)
) WITH (fillfactor = 50);
