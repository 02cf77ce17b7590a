// Status pages: which cards of services people see, where, and how they look.
import { randomUUID } from 'node:crypto'
import * as z from 'zod'
import {
  StatusPage,
  StatusPageInput,
  Subscription,
  SubscriptionsInput,
  SubscriptionsMade,
  EMAIL_UNSENT,
} from './schema.ts'
import type { Database, Queryable } from '../../database/database.ts'
import {
  changeStatusPage,
  deleteStatusPage,
  deleteSubscription,
  insertStatusPage,
  listStatusPages,
  listSubscriptions,
  LOOKS,
  readStatusPage,
  setCards,
  type PageFields,
} from './queries.ts'
import { ApiError, conflictOf, orNotFound, notFound } from '../http/errors.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'
import { Resource } from '../http/resource.ts'

const tag = 'Status Pages'
const params = { statusPageId: idParameter('status page') }
const PATH = '/v1/status-pages'
const SUBSCRIPTIONS = `${PATH}/{statusPageId}/subscriptions`
const TAKEN = 'Another status page has this url or custom domain'
const DOMAIN_TAKEN = 'Another status page has this custom domain'

const pages = new Resource({
  tag,
  path: PATH,
  one: params,
  what: 'status page',
  schema: StatusPage,
})
const subscriptions = new Resource({
  tag,
  path: SUBSCRIPTIONS,
  of: params,
  one: { ...params, subscriptionId: idParameter('subscription') },
  what: 'subscription',
  schema: Subscription,
})

/** The operations on status pages and on subscriptions to them. */
export function statusPageOperations(database: Database): DefinedOperation[] {
  return [...pageOperations(database), ...subscriptionOperations(database)]
}

function pageOperations(database: Database): DefinedOperation[] {
  return [
    pages.pages(
      {
        summary: 'List status pages',
        description: 'Newest first.',
        listing: 'status-pages',
        id: 'StatusPagesPage',
      },
      database,
      listStatusPages,
    ),
    pages.read({ summary: 'Read a status page' }, ({ accountId, statusPageId }) =>
      readStatusPage(database, accountId, statusPageId),
    ),
    pages.create(
      {
        summary: 'Create a status page',
        description:
          'Its definition is stored for the API; this version serves no page at its `url` or `customDomain`.',
        body: StatusPageInput,
        conflict: TAKEN,
      },
      ({ accountId, body }) => {
        const page = pageFields(randomUUID(), accountId, body)
        return written(database, page, body, (tx) => insertStatusPage(tx, page))
      },
    ),
    pages.replace(
      { summary: 'Replace a status page', body: StatusPageInput, conflict: TAKEN },
      ({ accountId, statusPageId, body }) => {
        const page = pageFields(statusPageId, accountId, body)
        return written(database, page, body, (tx) => changeStatusPage(tx, page))
      },
    ),
    pages.remove(
      { summary: 'Delete a status page with its subscriptions' },
      ({ accountId, statusPageId }) => deleteStatusPage(database, accountId, statusPageId),
    ),
  ]
}

function subscriptionOperations(database: Database): DefinedOperation[] {
  return [
    subscriptions.list(
      { summary: 'List subscriptions to a status page', description: 'Newest first.' },
      async ({ accountId, statusPageId }) => {
        orNotFound(await readStatusPage(database, accountId, statusPageId), 'status page')
        return listSubscriptions(database, statusPageId)
      },
    ),
    defineOperation({
      tag,
      summary: 'Subscribe addresses to a status page',
      method: 'post',
      path: `${SUBSCRIPTIONS}/bulk`,
      params,
      body: z.unknown(),
      bodyShown: SubscriptionsInput,
      answers: { status: 201, schema: SubscriptionsMade, description: 'How many there are' },
      notImplemented: EMAIL_UNSENT,
      async answer() {
        throw new ApiError(501, EMAIL_UNSENT)
      },
    }),
    subscriptions.remove(
      { summary: 'End a subscription' },
      ({ accountId, statusPageId: pageId, subscriptionId: id }) =>
        deleteSubscription(database, { accountId, pageId, id }),
    ),
  ]
}

function pageFields(id: string, accountId: string, body: StatusPageInput): PageFields {
  const { name, url } = body
  const customDomain = body.customDomain?.toLowerCase() ?? null
  const looks = Object.fromEntries(LOOKS.map((look) => [look, body[look]]))
  return { id, accountId, name, url, customDomain, looks }
}

/** Writes the page by `write` and its cards, all or nothing; undefined where `write` finds no page. */
function written(
  database: Database,
  page: PageFields,
  body: StatusPageInput,
  write: (tx: Queryable) => Promise<boolean>,
): Promise<string | undefined> {
  const cards = body.cards.map((card) => ({
    id: randomUUID(),
    name: card.name,
    serviceIds: [...new Set(card.services.map((service) => service.id.toLowerCase()))],
  }))
  return database
    .transaction(async (tx) => {
      if (!(await write(tx))) return undefined
      const [missing] = await setCards(tx, page, cards)
      if (missing !== undefined) throw notFound(`service: ${missing}`)
      return readStatusPage(tx, page.accountId, page.id)
    })
    .catch(conflictOf('status_pages_url_taken', `Another status page has the url "${page.url}"`))
    .catch(conflictOf('status_pages_custom_domain_taken', DOMAIN_TAKEN))
}
