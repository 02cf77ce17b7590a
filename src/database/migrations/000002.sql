-- Status page incidents, the services that they tell of, the pages that show them, and the windows in
-- which requests are counted.

create table services (
  id uuid primary key,
  account_id uuid not null references accounts (id) on delete cascade,
  name text not null check (char_length(name) between 1 and 255),
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz,
  -- A service that is gone still stands in the incidents that told of it.
  deleted_at timestamptz
);
create index services_listed on services (account_id, created_at desc, id desc)
  where deleted_at is null;

create table incidents (
  id uuid primary key,
  account_id uuid not null references accounts (id) on delete cascade,
  name text not null check (char_length(name) between 1 and 255),
  severity text not null check (severity in ('CRITICAL', 'MAJOR', 'MEDIUM', 'MINOR')),
  -- Both follow from the updates and are computed with each of their changes.
  last_update_status text not null
    check (last_update_status in ('INVESTIGATING', 'IDENTIFIED', 'MONITORING', 'RESOLVED')),
  duration_s bigint,
  -- Bytes of the descriptions of all updates: a page knows how large it gets before it reads them.
  update_bytes bigint not null default 0,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp()
);
create index incidents_listed on incidents (account_id, created_at desc, id desc);

create table incident_services (
  incident_id uuid not null references incidents (id) on delete cascade,
  service_id uuid not null references services (id) on delete cascade,
  position int not null,
  primary key (incident_id, service_id)
);
create index incident_services_by_service on incident_services (service_id);

create table incident_updates (
  id uuid primary key,
  incident_id uuid not null references incidents (id) on delete cascade,
  -- Order of creation, which decides between updates of the same public date.
  seq bigint generated always as identity,
  description text not null,
  status text check (status in ('INVESTIGATING', 'IDENTIFIED', 'MONITORING', 'RESOLVED')),
  public_at timestamptz not null,
  notify_subscribers boolean not null,
  created_at timestamptz not null default clock_timestamp()
);
create index incident_updates_shown on incident_updates (incident_id, public_at desc, seq desc);

create table status_pages (
  id uuid primary key,
  account_id uuid not null references accounts (id) on delete cascade,
  name text not null check (char_length(name) between 1 and 255),
  url text not null constraint status_pages_url_taken unique check (url = lower(url)),
  custom_domain text constraint status_pages_custom_domain_taken unique,
  -- The rest of how it looks: description, colors, logos, theme.
  looks jsonb not null,
  version int not null default 1,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz
);
create index status_pages_listed on status_pages (account_id, created_at desc, id desc);

create table status_page_cards (
  id uuid primary key,
  status_page_id uuid not null references status_pages (id) on delete cascade,
  position int not null,
  name text not null,
  created_at timestamptz not null default clock_timestamp()
);
create index status_page_cards_by_page on status_page_cards (status_page_id, position);

create table status_page_card_services (
  card_id uuid not null references status_page_cards (id) on delete cascade,
  service_id uuid not null references services (id),
  position int not null,
  primary key (card_id, service_id)
);
create index status_page_card_services_by_service on status_page_card_services (service_id);

create table status_page_subscriptions (
  id uuid primary key,
  status_page_id uuid not null references status_pages (id) on delete cascade,
  email text not null,
  verified boolean not null,
  created_at timestamptz not null default clock_timestamp()
);
create unique index status_page_subscriptions_once
  on status_page_subscriptions (status_page_id, lower(email));
create index status_page_subscriptions_listed
  on status_page_subscriptions (status_page_id, created_at desc, id desc);

-- Room on each page keeps the many updates of a count in place.
create table rate_windows (
  scope text primary key,
  starts_ms bigint not null,
  ends_ms bigint not null,
  used int not null,
  granted int not null
) with (fillfactor = 50);

-- Platform processes remember keys for a few seconds; this tells them to look again at once.
create function tell_api_keys_changed() returns trigger language plpgsql as $$
begin
  notify vedette_keys;
  return null;
end $$;
create trigger api_keys_changed after update of role, revoked_at, account_id or delete on api_keys
  for each statement execute function tell_api_keys_changed();
