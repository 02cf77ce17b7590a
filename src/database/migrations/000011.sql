-- Heartbeats: jobs that ping the platform. Their results belong to a location of each account that no agent has.

alter table private_locations add column is_internal boolean not null default false;

create table heartbeats (
  monitor_id uuid primary key references monitors (id) on delete cascade,
  account_id uuid not null references accounts (id) on delete cascade,
  location_id uuid not null references private_locations (id) on delete cascade,
  -- SHA-256 of the token in the address that is pinged.
  token_hash bytea not null,
  period_ms bigint not null,
  grace_ms bigint not null,
  -- The last ping that reported the end of a run, and the start of the run under way.
  last_ping_ms bigint,
  started_ms bigint,
  -- The slot of the newest result.
  last_slot_ms bigint not null default 0,
  -- When the next ping is late; null while the check is not active.
  deadline_ms bigint,
  is_late boolean not null default false,
  constraint heartbeats_token_taken unique (token_hash)
);
create index heartbeats_due on heartbeats (deadline_ms);
