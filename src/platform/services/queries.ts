// Statements on services.
import { serviceJson } from '../../database/json-text.ts'
import { pageStatement } from '../../database/page.ts'
import { statement, type Connection } from '../../database/statement.ts'

/** The services of an account. */
export const listServices = pageStatement({
  name: 'services-page',
  from: 'services',
  where: 'account_id = $1::uuid and deleted_at is null',
  json: serviceJson('i'),
})

const read = statement<[string, string], { json: string }>(
  'service-read',
  `select ${serviceJson('s')} as json from services s
   where s.id = $1 and s.account_id = $2 and s.deleted_at is null`,
)

/** A service of the account as JSON text. */
export async function readService(
  connection: Connection,
  accountId: string,
  id: string,
): Promise<string | undefined> {
  return (await read(connection, id, accountId))[0]?.json
}

const among = statement<[string, string[]], { id: string }>(
  'services-among',
  `select id from services
   where account_id = $1 and id = any ($2::uuid[]) and deleted_at is null`,
)

/** Those of `ids` that are services of the account. */
export async function servicesAmong(
  connection: Connection,
  accountId: string,
  ids: readonly string[],
): Promise<string[]> {
  return (await among(connection, accountId, [...ids])).map(({ id }) => id)
}

const insert = statement<[string, string, string], { json: string }>(
  'service-insert',
  `insert into services as s (id, account_id, name) values ($1, $2, $3)
   returning ${serviceJson('s')} as json`,
)

/** Adds a service and answers with it as JSON text. */
export async function insertService(
  connection: Connection,
  service: { id: string; accountId: string; name: string },
): Promise<string> {
  return (await insert(connection, service.id, service.accountId, service.name))[0]?.json ?? ''
}

const rename = statement<[string, string, string], { json: string }>(
  'service-rename',
  `update services s set name = $3, updated_at = clock_timestamp()
   where s.id = $1 and s.account_id = $2 and s.deleted_at is null
   returning ${serviceJson('s')} as json`,
)

/** Renames a service; undefined when the account has none of that id. */
export async function renameService(
  connection: Connection,
  service: { id: string; accountId: string; name: string },
): Promise<string | undefined> {
  return (await rename(connection, service.id, service.accountId, service.name))[0]?.json
}

const lock = statement<[string, string], { id: string }>(
  'service-lock',
  `select id from services where id = $1 and account_id = $2 and deleted_at is null for update`,
)

const remove = statement<[string], { id: string }>(
  'service-delete',
  `update services set deleted_at = clock_timestamp()
   where id = $1 and not exists (select from status_page_card_services where service_id = $1)
   returning id`,
)

/**
 * Deletes a service unless a status page shows it. It stays in its incidents. Needs a transaction: the lock
 * must precede the search for status pages.
 */
export async function deleteService(
  tx: Connection,
  accountId: string,
  id: string,
): Promise<'deleted' | 'shown' | 'absent'> {
  if ((await lock(tx, id, accountId)).length === 0) return 'absent'
  return (await remove(tx, id)).length === 1 ? 'deleted' : 'shown'
}
