-- Accounts and the keys that open them.

create table accounts (
  id uuid primary key default gen_random_uuid(),
  name text not null check (char_length(name) between 1 and 255),
  created_at timestamptz(3) not null default now()
);

-- A key is 256 random bits, so one round of SHA-256 hides it; the key itself is kept nowhere.
create table api_keys (
  id uuid primary key default gen_random_uuid(),
  account_id uuid not null references accounts (id) on delete cascade,
  name text not null check (char_length(name) between 1 and 255),
  role text not null check (role in ('Admin', 'Read & Write', 'Read & Run', 'Read Only')),
  hash bytea not null check (octet_length(hash) = 32),
  -- The last characters, for people who look for the key at hand.
  suffix text not null check (char_length(suffix) = 4),
  created_at timestamptz(3) not null default now(),
  -- Written at most once a minute for a key.
  last_used_at timestamptz(3),
  revoked_at timestamptz(3),
  constraint api_keys_hash_key unique (hash)
);

create index api_keys_account_id_idx on api_keys (account_id, created_at, id);
