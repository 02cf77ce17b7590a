-- Faults of the programs themselves: of agents, as they report them, and of the platform, which has neither
-- location nor agent. The same fault of the same program is one row.

create table faults (
  id bigint generated always as identity primary key,
  location_id uuid references private_locations (id) on delete cascade,
  agent_id uuid,
  -- SHA-256 of what makes it the same as another.
  mark bytea not null check (octet_length(mark) = 32),
  report jsonb not null,
  times integer not null default 1,
  first_seen_at timestamptz(3) not null default clock_timestamp(),
  last_seen_at timestamptz(3) not null default clock_timestamp(),
  check ((location_id is null) = (agent_id is null))
);
create unique index faults_once on faults (location_id, agent_id, mark) nulls not distinct;
create index faults_listed on faults (location_id, last_seen_at desc);
create index faults_by_age on faults (last_seen_at);
