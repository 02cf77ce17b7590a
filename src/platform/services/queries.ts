// Statements on services.
import { dayText, escaped, objectText, orNull, quoted } from '../../database/row-json.ts'
import { pageStatement } from '../../database/page.ts'
import { queryValue, queryValues, raw, sql } from '../../database/sql.ts'
import type { Queryable } from '../../database/database.ts'

/** The JSON text of the row `s`, as the public contract has a service. */
export function serviceText(s: string): string {
  return objectText({
    name: escaped(`${s}.name`),
    id: quoted(`${s}.id`),
    accountId: quoted(`${s}.account_id`),
    created_at: quoted(dayText(`${s}.created_at`)),
    updated_at: orNull(quoted(dayText(`${s}.updated_at`))),
  })
}

const SERVICE = raw(serviceText('s'))

/** The services of an account. */
export const listServices = pageStatement({
  name: 'services-page',
  from: 'services',
  where: 'account_id = $1::uuid and deleted_at is null',
  entry: serviceText('i'),
})

/** A service of the account as JSON text. */
export const readService = queryValue(
  (accountId: string, id: string) => sql<{ json: string }>('service-read')`
      select ${SERVICE} as json from services s
      where s.id = ${id} and s.account_id = ${accountId} and s.deleted_at is null`,
)

/** Those of `ids` that are services of the account. */
export const servicesAmong = queryValues(
  (accountId: string, ids: readonly string[]) => sql<{ id: string }>('services-among')`
      select id from services
      where account_id = ${accountId} and id = any (${[...ids]}::uuid[]) and deleted_at is null`,
)

/** Adds a service and answers with it as JSON text. */
export const insertService = queryValue(
  (service: { id: string; accountId: string; name: string }) => sql<{ json: string }>(
    'service-insert',
  )`
      insert into services as s (id, account_id, name) values (${service.id}, ${service.accountId}, ${service.name})
      returning ${SERVICE} as json`,
)

/** Renames a service; undefined when the account has none of that id. */
export const renameService = queryValue(
  (service: { id: string; accountId: string; name: string }) => sql<{ json: string }>(
    'service-rename',
  )`
      update services s set name = ${service.name}, updated_at = clock_timestamp()
      where s.id = ${service.id} and s.account_id = ${service.accountId} and s.deleted_at is null
      returning ${SERVICE} as json`,
)

/**
 * Deletes a service unless a status page shows it. It stays in its incidents. Needs a transaction: the lock
 * must precede the search for status pages.
 */
export async function deleteService(
  tx: Queryable,
  accountId: string,
  id: string,
): Promise<'deleted' | 'shown' | 'absent'> {
  const rows = await tx.query(sql<{ id: string }>('service-lock')`
      select id from services where id = ${id} and account_id = ${accountId} and deleted_at is null for update`)
  if (rows.length === 0) return 'absent'
  const deleted = await tx.query(sql<{ id: string }>('service-delete')`
      update services set deleted_at = clock_timestamp()
      where id = ${id} and not exists (select from status_page_card_services where service_id = ${id})
      returning id`)
  return deleted.length === 1 ? 'deleted' : 'shown'
}
