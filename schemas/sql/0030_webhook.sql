-- 0030_webhook.sql - whom to tell that a batch has ended.
--
-- entry is the entry of the intake stream that asked for it: read again, it asks for nothing new.
-- outcome: NULL while the message waits or is tried again, then 'delivered' or 'failed'.  due_at is
-- set before each attempt to when another scheduler may make the next one, so an attempt whose
-- scheduler dies is made again.  delivery is the same in all attempts.
CREATE TABLE webhook (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    batch_id   bigint NOT NULL REFERENCES batch ON DELETE CASCADE,
    entry      text NOT NULL,
    url        text NOT NULL,
    delivery   text NOT NULL DEFAULT gen_random_uuid()::text,
    created_at timestamptz NOT NULL DEFAULT now(),
    began_at   timestamptz, -- the first attempt
    due_at     timestamptz NOT NULL DEFAULT now(),
    tries      integer NOT NULL DEFAULT 0,
    outcome    text,
    ended_at   timestamptz,
    error      text, -- of the last attempt
    UNIQUE (batch_id, entry)
);
-- However many calls of a batch name a URL, it is told once when the batch has ended.
CREATE UNIQUE INDEX webhook_waits ON webhook (batch_id, url) WHERE outcome IS NULL;
CREATE INDEX webhook_due ON webhook (due_at) WHERE outcome IS NULL;
CREATE INDEX webhook_failed ON webhook (ended_at) WHERE outcome = 'failed';
