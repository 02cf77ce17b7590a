// Statements on status pages with their cards, and on who subscribed to them.
import { EMAIL_UNSENT, PAGE_UNSERVED } from './schema.ts'
import { dayText, listText, rowJson, rowsJson } from '../../database/row-json.ts'
import { serviceText } from '../services/queries.ts'
import { pageStatement } from '../../database/page.ts'
import { queryAny, queryAs, queryValue, queryValues, raw, sql } from '../../database/sql.ts'

const literal = (text: string) => `'${text.replaceAll("'", "''")}'`

/** The fields of a page that are stored as one document. */
export const LOOKS = [
  'description',
  'themeColors',
  'logo',
  'logoDark',
  'redirectTo',
  'favicon',
  'defaultTheme',
] as const

const SERVICES_JSON = `(${listText(`select ${serviceText('s')} as entry
  from status_page_card_services link join services s on s.id = link.service_id
  where link.card_id = card.id order by link.position`)})::json`

const CARDS_JSON = rowsJson(`select card.id, card.name, ${SERVICES_JSON} as services,
    ${dayText('card.created_at')} as created_at, null as updated_at
  from status_page_cards card where card.status_page_id = i.id order by card.position`)

const PAGE_COLUMNS = `i.id, i.account_id as "accountId", i.name, i.url,
  i.custom_domain as "customDomain",
  ${LOOKS.map((name) => `(i.looks -> '${name}')::json as "${name}"`).join(', ')},
  false as "isPrivate", i.version, ${CARDS_JSON} as cards,
  ${dayText('i.created_at')} as created_at, ${dayText('i.updated_at')} as updated_at,
  ${literal(PAGE_UNSERVED)} as warning`

/** The status pages of an account. */
export const listStatusPages = pageStatement({
  name: 'status-pages-page',
  from: 'status_pages',
  where: 'account_id = $1::uuid',
  entry: `${rowJson(PAGE_COLUMNS)}::text`,
})

/** A status page of the account as JSON text. */
export const readStatusPage = queryValue(
  (accountId: string, id: string) => sql<{ json: string }>('status-page-read')`
      select ${raw(rowJson(PAGE_COLUMNS))}::text as json from status_pages i where i.id = ${id} and i.account_id = ${accountId}`,
)

/** The fields of a page, without its cards. */
export interface PageFields {
  id: string
  accountId: string
  name: string
  url: string
  customDomain: string | null
  looks: Record<string, unknown>
}

/** Adds a page; true. A used address or domain is a failure of kind `unique`. */
export const insertStatusPage = queryAny((page: PageFields) => {
  const { id, accountId, name, url, customDomain, looks } = page
  return sql('status-page-insert')`
    insert into status_pages (id, account_id, name, url, custom_domain, looks)
    values (${id}, ${accountId}, ${name}, ${url}, ${customDomain}, ${JSON.stringify(looks)})
    returning id`
})

/** Replaces a page's own fields; false when the account has none of that id. */
export const changeStatusPage = queryAny((page: PageFields) => {
  const { id, accountId, name, url, customDomain, looks } = page
  return sql('status-page-change')`
    update status_pages set name = ${name}, url = ${url}, custom_domain = ${customDomain},
      looks = ${JSON.stringify(looks)}, version = version + 1, updated_at = clock_timestamp()
    where id = ${id} and account_id = ${accountId} returning id`
})

/** A card of a page, each of its services named once. */
export interface Card {
  id: string
  name: string
  serviceIds: string[]
}

/** Makes `cards` the cards of a page. Answers with the services that the account does not have. */
export const setCards = queryValues(
  (page: { id: string; accountId: string }, cards: readonly Card[]) => {
    const links = cards.flatMap(({ id, serviceIds }) => serviceIds.map((of) => ({ id, of })))
    // Services are locked, so that none is deleted between the check and the link.
    return sql<{ id: string }>('status-page-cards-set')`
      with gone as (
        delete from status_page_cards where status_page_id = ${page.id}
      ), added as (
        insert into status_page_cards (id, status_page_id, position, name)
        select card.id, ${page.id}, card.position, card.name
        from unnest(${cards.map(({ id }) => id)}::uuid[], ${cards.map(({ name }) => name)}::text[])
          with ordinality card (id, name, position)
      ), wanted as (
        select * from unnest(${links.map(({ id }) => id)}::uuid[], ${links.map(({ of }) => of)}::uuid[])
          with ordinality link (card_id, service_id, position)
      ), present as (
        select id from services
        where id in (select service_id from wanted) and account_id = ${page.accountId}
          and deleted_at is null order by id for share
      ), linked as (
        insert into status_page_card_services (card_id, service_id, position)
        select w.card_id, w.service_id, w.position from wanted w join present p on p.id = w.service_id
      )
      select service_id as id from wanted where service_id not in (select id from present)
      order by position`
  },
)

/** Deletes a page with its cards and subscriptions; false when the account has none of that id. */
export const deleteStatusPage = queryAny(
  (accountId: string, id: string) => sql('status-page-delete')`
      delete from status_pages where id = ${id} and account_id = ${accountId} returning id`,
)

const SUBSCRIPTIONS_JSON = rowsJson(`select i.id, i.status_page_id as "statusPageId",
    'EMAIL' as type, i.email as address, i.email,
    case when i.verified then 'VERIFIED' else 'PENDING' end as status, i.verified,
    ${dayText('i.created_at')} as created_at, ${dayText('i.created_at')} as updated_at,
    ${literal(EMAIL_UNSENT)} as warning
  from status_page_subscriptions i where i.status_page_id = page.id
  order by i.created_at desc, i.id desc`)

/** The subscriptions to a page as a JSON array; whose page it is must be known before. */
export const listSubscriptions = queryAs(
  (statusPageId: string) => sql<{ json: string }>('subscriptions-list')`
      select ${raw(SUBSCRIPTIONS_JSON)}::text as json from status_pages page
      where page.id = ${statusPageId}`,
  ([row]) => row?.json ?? '[]',
)

/** Ends a subscription; false when the page has none of that id. */
export const deleteSubscription = queryAny(
  (of: { accountId: string; pageId: string; id: string }) => sql('subscription-delete')`
      delete from status_page_subscriptions i using status_pages page
      where i.id = ${of.id} and i.status_page_id = ${of.pageId} and page.id = i.status_page_id
        and page.account_id = ${of.accountId}
      returning i.id`,
)
