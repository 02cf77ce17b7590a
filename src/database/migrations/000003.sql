-- Monitors, the locations where agents stand, what they record, and the account of every slot. Instants
-- of slots are milliseconds since the Unix epoch, as the timetable computes them.

-- Where agents stand. `revision` counts every change that its agents have to hear of; it is raised while
-- the row is locked, so that changes become visible in its order.
create table private_locations (
  id uuid primary key,
  account_id uuid not null references accounts (id) on delete cascade,
  name text not null check (char_length(name) between 1 and 255),
  slug_name text not null,
  icon text not null default 'location',
  -- Sealed: it may hold a password.
  proxy_url text,
  revision bigint not null default 1,
  -- The newest epoch of its membership; 0 before the first agent.
  epoch int not null default 0,
  -- Since when monitors are here and no agent is; null while one is. `absence_told_at`: owners know.
  absent_since timestamptz(3),
  absence_told_at timestamptz(3),
  created_at timestamptz(3) not null default clock_timestamp(),
  updated_at timestamptz(3),
  constraint private_locations_slug_taken unique (account_id, slug_name)
);

-- Keys of agents, `pl_…`: 256 random bits of which only the SHA-256 is kept. At most two are active.
create table location_keys (
  id uuid primary key,
  location_id uuid not null references private_locations (id) on delete cascade,
  hash bytea not null check (octet_length(hash) = 32),
  suffix text not null check (char_length(suffix) = 4),
  created_at timestamptz(3) not null default clock_timestamp(),
  last_used_at timestamptz(3),
  revoked_at timestamptz(3),
  constraint location_keys_hash_key unique (hash)
);
create index location_keys_by_location on location_keys (location_id, created_at);
create trigger location_keys_changed after update of revoked_at or delete on location_keys
  for each statement execute function tell_api_keys_changed();

create table check_groups (
  id bigint generated always as identity primary key,
  account_id uuid not null references accounts (id) on delete cascade,
  name text not null,
  -- The wire form, sealed: it may hold secrets.
  definition text not null,
  -- The locations that it names, so that none of them is deleted.
  location_ids uuid[] not null default '{}',
  -- Set by whoever applies a file of monitors: the file's name and the group's key in it.
  file_name text,
  file_key text,
  created_at timestamptz(3) not null default clock_timestamp(),
  updated_at timestamptz(3)
);
create index check_groups_listed on check_groups (account_id, id);
create unique index check_groups_of_file on check_groups (account_id, file_name, file_key);

create table monitors (
  id uuid primary key,
  account_id uuid not null references accounts (id) on delete cascade,
  check_type text not null,
  name text not null,
  -- What holds, its group's settings counted in.
  activated boolean not null,
  muted boolean not null,
  tags text[] not null default '{}',
  group_id bigint references check_groups (id),
  -- The wire form as it was given, and as it holds with its group's settings; both sealed.
  definition text not null,
  effective text not null,
  -- The locations that either of them names, so that none of them is deleted.
  location_ids uuid[] not null default '{}',
  file_name text,
  file_key text,
  created_at timestamptz(3) not null default clock_timestamp(),
  updated_at timestamptz(3),
  -- Results outlive their monitor until retention drops them.
  deleted_at timestamptz(3)
);
create index monitors_listed on monitors (account_id, created_at desc, id desc)
  where deleted_at is null;
create index monitors_by_group on monitors (group_id) where deleted_at is null;
create unique index monitors_of_file on monitors (account_id, file_name, file_key)
  where deleted_at is null;

-- Variables of all monitors of an account. The value is sealed.
create table account_variables (
  account_id uuid not null references accounts (id) on delete cascade,
  key text not null,
  value text not null,
  locked boolean not null,
  secret boolean not null,
  file_name text,
  created_at timestamptz(3) not null default clock_timestamp(),
  updated_at timestamptz(3),
  primary key (account_id, key)
);

-- Which monitor stands in which location, and at which revision of the location that last changed.
create table placements (
  location_id uuid not null references private_locations (id) on delete cascade,
  monitor_id uuid not null references monitors (id) on delete cascade,
  revision bigint not null,
  -- What it takes to run it: the type, and `engine:…` or `runtime:…` where one is needed.
  needs text[] not null,
  every_ms bigint not null,
  offset_ms bigint not null,
  -- No slot before it; and none from `until_ms` on once the monitor left the location or was switched off.
  from_ms bigint not null,
  until_ms bigint,
  primary key (location_id, monitor_id)
);
create index placements_changed on placements (location_id, revision);
create index placements_by_monitor on placements (monitor_id);

-- The expected slots: n × every_ms + offset_ms within [from_ms, until_ms). One row for each era of a
-- monitor's timing in a location, so that they can be computed for any span of the past. Eras of the same
-- monitor in the same location never overlap.
create table expectations (
  location_id uuid not null,
  monitor_id uuid not null,
  from_ms bigint not null,
  until_ms bigint,
  every_ms bigint not null check (every_ms >= 1000),
  offset_ms bigint not null,
  -- When the row was written: the first slot may lie before it, and nobody can report it any sooner.
  opened_ms bigint not null default (extract(epoch from clock_timestamp()) * 1000)::bigint,
  primary key (location_id, monitor_id, from_ms)
);
create index expectations_open on expectations (until_ms);

-- Agents that ever reported, by the id that each keeps in its folder. Ids count within their location,
-- so that nobody can speak for an agent of another one.
create table agents (
  id uuid not null,
  location_id uuid not null references private_locations (id) on delete cascade,
  -- Another one after each start; those before it, latest first, have nothing to say any more.
  instance uuid not null,
  former_instances uuid[] not null default '{}',
  version text not null,
  image text not null,
  -- What it can run, in the words of placements.needs.
  abilities text[] not null,
  state text not null check (state in ('live', 'left', 'lost')),
  -- What it said last of its queues.
  queues jsonb not null default '{}',
  first_seen_at timestamptz(3) not null default clock_timestamp(),
  last_seen_at timestamptz(3) not null default clock_timestamp(),
  primary key (location_id, id)
);
create index agents_live on agents (last_seen_at) where state = 'live';

-- Who is in a location, from which slot on. Who runs a slot follows from the epoch that holds at the
-- slot's instant: agents and platforms agree on it without asking each other.
create table location_epochs (
  location_id uuid not null references private_locations (id) on delete cascade,
  epoch int not null,
  from_ms bigint not null,
  -- [{"id", "version", "abilities"}], by id.
  members jsonb not null,
  -- Why it began: {"kind", "agents", "notStarted"}; see store/location-epochs.ts.
  cause jsonb not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  primary key (location_id, epoch)
);

-- How much waited in a location, minute by minute.
create table location_samples (
  location_id uuid not null references private_locations (id) on delete cascade,
  at timestamptz(3) not null,
  queue_size int not null,
  -- How long the oldest of what waited had been due; null where no agent said so.
  oldest_scheduled_ms bigint,
  primary key (location_id, at)
);
create index location_samples_by_age on location_samples (at);

-- Since when some platform process has been there without a pause: agents cannot report to nobody.
create table platform_pulse (
  one boolean primary key default true check (one),
  since timestamptz(3) not null,
  last timestamptz(3) not null
);

-- One row for each slot: a result, or `missed` with its reason.
create table results (
  location_id uuid not null,
  monitor_id uuid not null,
  -- The instant of the slot.
  slot timestamptz(3) not null,
  account_id uuid not null,
  verdict text not null
    check (verdict in ('passed', 'degraded', 'failed', 'errored', 'cancelled', 'missed')),
  missed_reason text,
  -- With `no-capable-agent`: what is needed.
  needed text,
  -- The platform filled it in because nobody reported; whatever an agent reports replaces it.
  filled boolean not null default false,
  agent_id uuid,
  started_at timestamptz(3) not null,
  duration_ms real not null,
  response_time_ms real,
  attempts smallint not null,
  -- The first failure's code, and everything that was seen where it is kept.
  failure_code text,
  detail jsonb,
  received_at timestamptz(3) not null default clock_timestamp(),
  primary key (location_id, monitor_id, slot)
) partition by range (slot);
create index results_by_monitor on results (monitor_id, slot desc);
-- Rows come nearly in the order of their slots, so a few bytes for each 128 pages find a span of time.
create index results_by_slot on results using brin (slot) with (autosummarize = on);

-- How far slots have been accounted for: from `kept_from_ms` (rows before it were dropped) up to here every
-- expected slot has its row. The totals count what was swept since the beginning.
create table accounting (
  one boolean primary key default true check (one),
  swept_until_ms bigint not null,
  kept_from_ms bigint not null default 0,
  expected_total bigint not null default 0,
  recorded_total bigint not null default 0
);

-- An hour of a monitor in a location. `response_times`: counts by class of response time (see
-- contract/response-histogram.ts), sparse: {"class": count}.
create table rollups (
  location_id uuid not null,
  monitor_id uuid not null,
  hour timestamptz(3) not null,
  account_id uuid not null,
  passed int not null,
  degraded int not null,
  failed int not null,
  errored int not null,
  cancelled int not null,
  missed int not null,
  response_time_ms_sum double precision not null,
  response_time_ms_min real,
  response_time_ms_max real,
  response_times jsonb not null,
  primary key (location_id, monitor_id, hour)
);
create index rollups_by_monitor on rollups (monitor_id, hour);

-- Hours whose rollup has to be computed anew because results came late.
create table rollups_due (
  location_id uuid not null,
  monitor_id uuid not null,
  hour timestamptz(3) not null,
  primary key (location_id, monitor_id, hour)
);
create table rollups_done (
  one boolean primary key default true check (one),
  until_hour timestamptz(3) not null
);

-- Runs that somebody asked for.
create table runs (
  id uuid primary key,
  account_id uuid not null references accounts (id) on delete cascade,
  monitor_id uuid not null references monitors (id) on delete cascade,
  location_id uuid not null references private_locations (id) on delete cascade,
  -- Who has been told of it; null while nobody has.
  agent_id uuid,
  -- sent: an agent was told; running: it said that it began.
  state text not null check (state in ('queued', 'sent', 'running', 'finished')),
  asked_by text not null,
  cancel_asked_at timestamptz(3),
  created_at timestamptz(3) not null default clock_timestamp(),
  -- Since when it waits for an agent: its beginning, or when it was taken from one that was lost.
  queued_at timestamptz(3) not null default clock_timestamp(),
  -- When the agent first named it among its runs; null: it has to be told again.
  taken_at timestamptz(3),
  finished_at timestamptz(3),
  verdict text check (verdict in ('passed', 'degraded', 'failed', 'errored', 'cancelled', 'missed')),
  missed_reason text,
  -- With `no-capable-agent`: what is needed.
  needed text,
  -- The platform ended it because nobody reported; what an agent reports replaces that.
  filled boolean not null default false,
  -- The whole result as the agent sent it.
  result jsonb,
  check ((state = 'finished') = (verdict is not null)),
  check ((state = 'finished') = (finished_at is not null))
);
create index runs_open on runs (location_id) where state <> 'finished';
create index runs_listed on runs (monitor_id, created_at desc, id desc);
create index runs_finished on runs (finished_at) where state = 'finished';

create function tell_run_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('vedette_runs', new.id::text);
  return null;
end
$$;
create trigger runs_changed after update on runs
  for each row execute function tell_run_changed();

-- Files of results. `owner_key`: `<monitor>.<slot>` or the id of a run.
create table artifacts (
  id uuid primary key,
  account_id uuid not null references accounts (id) on delete cascade,
  location_id uuid not null,
  owner_key text not null,
  name text not null,
  -- arriving: bytes are on their way, or an upload broke off and is not cleaned up yet.
  -- refused: it never came to be, for the reason in `refusal`.
  state text not null check (state in ('arriving', 'stored', 'refused')),
  refusal text,
  bytes bigint,
  sha256 bytea check (octet_length(sha256) = 32),
  content_type text not null,
  -- Where the store keeps it.
  stored_as text not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  check (state <> 'stored' or (bytes is not null and sha256 is not null)),
  check ((state = 'refused') = (refusal is not null))
);
create unique index artifacts_once on artifacts (location_id, owner_key, name)
  where state <> 'arriving';
create index artifacts_by_age on artifacts (created_at);
create index artifacts_arriving on artifacts (created_at) where state = 'arriving';

-- How an account wants to be alerted where a monitor says nothing else.
create table alert_settings (
  account_id uuid primary key references accounts (id) on delete cascade,
  settings jsonb not null,
  updated_at timestamptz(3) not null default clock_timestamp()
);

create table alert_channels (
  id bigint generated always as identity primary key,
  account_id uuid not null references accounts (id) on delete cascade,
  type text not null check (type in ('WEBHOOK')),
  name text not null,
  -- Address, headers, template and signing secret, sealed.
  config text not null,
  send_recovery boolean not null,
  send_failure boolean not null,
  send_degraded boolean not null,
  ssl_expiry boolean not null,
  ssl_expiry_days int not null,
  -- Also notices about locations without agents, and of incidents with notifySubscribers.
  send_notices boolean not null default true,
  -- For every monitor that names no channels.
  is_default boolean not null default false,
  -- Monitors and groups that are told of here: [{"checkId" or "groupId", "activated"}].
  subscriptions jsonb not null default '[]',
  -- The receiver said that it is gone; nothing is sent until somebody changes the channel.
  paused_at timestamptz(3),
  created_at timestamptz(3) not null default clock_timestamp(),
  updated_at timestamptz(3)
);
create index alert_channels_listed on alert_channels (account_id, id);

-- A monitor that is not well; none for those that are.
create table alert_states (
  monitor_id uuid primary key references monitors (id) on delete cascade,
  account_id uuid not null,
  -- What the pure step of contract/alert.ts keeps between results.
  state jsonb not null,
  -- The last run that was not passed, as it is told of.
  last_bad jsonb,
  -- When time alone may change something: an escalation, a reminder.
  due_at timestamptz(3),
  -- The incident that the alert opened. No reference: somebody may delete it while the alert is moved.
  incident_id uuid,
  updated_at timestamptz(3) not null default clock_timestamp()
);
create index alert_states_due on alert_states (due_at) where due_at is not null;

-- What was told to whom, and whether it arrived: the outbox of webhooks.
create table alert_notifications (
  id uuid primary key,
  account_id uuid not null references accounts (id) on delete cascade,
  channel_id bigint not null references alert_channels (id) on delete cascade,
  monitor_id uuid,
  -- What must arrive in its order in one channel: a monitor, an incident, a location.
  topic uuid not null,
  -- Order of creation, which clocks of several processes do not give.
  seq bigint generated always as identity,
  kind text not null,
  -- The body as it is posted, without secrets.
  payload jsonb not null,
  state text not null check (state in ('waiting', 'sent', 'failed')),
  attempts smallint not null default 0,
  -- While it waits: when it is tried next. Whoever tries it moves this on first.
  next_at timestamptz(3),
  status int,
  message text,
  created_at timestamptz(3) not null default clock_timestamp(),
  finished_at timestamptz(3)
);
create index alert_notifications_listed on alert_notifications (account_id, created_at desc, id desc);
create index alert_notifications_due on alert_notifications (next_at) where state = 'waiting';
create index alert_notifications_waiting on alert_notifications (channel_id, topic, seq)
  where state = 'waiting';
create index alert_notifications_finished on alert_notifications (finished_at)
  where finished_at is not null;

-- Which SECRETS_KEY the sealed columns were sealed under, so that another one is refused at the start.
create table secrets_key (
  one boolean primary key default true check (one),
  fingerprint bytea not null
);

-- Which process does what has to be done now and then, and when it was done last.
create table chores (
  name text primary key,
  ran_at timestamptz(3) not null default '-infinity',
  leased_until timestamptz(3) not null default '-infinity'
);
