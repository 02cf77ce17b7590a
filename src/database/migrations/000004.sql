-- Projects of check suites, packed, under the SHA-256 of their bytes; and how far runs are.

create table code_bundles (
  id uuid primary key,
  account_id uuid not null references accounts (id) on delete cascade,
  sha256 bytea not null check (octet_length(sha256) = 32),
  -- arriving: bytes are on their way, or an upload broke off and is not cleaned up yet.
  -- leaving: nobody can have it any more; its bytes are about to be removed.
  state text not null check (state in ('arriving', 'stored', 'leaving')),
  bytes bigint,
  -- Where the store keeps it.
  stored_as text not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  -- When somebody last brought it, or a monitor was seen that names it.
  used_at timestamptz(3) not null default clock_timestamp(),
  check (state <> 'stored' or bytes is not null)
);
create unique index code_bundles_once on code_bundles (account_id, sha256) where state = 'stored';
create index code_bundles_listed on code_bundles (account_id, created_at desc, id desc)
  where state = 'stored';
create index code_bundles_by_use on code_bundles (used_at);

-- The bundle that a monitor names, and the one that it named before: agents may be about to run by what
-- they heard last.
alter table monitors add column bundle bytea, add column former_bundle bytea,
  add column former_bundle_at timestamptz(3);
create index monitors_by_bundle on monitors (account_id, bundle) where bundle is not null;
create index monitors_by_former_bundle on monitors (account_id, former_bundle)
  where former_bundle is not null;

-- The newest that its agent said of how far it is.
alter table runs add column progress jsonb, add column progress_at timestamptz(3);
