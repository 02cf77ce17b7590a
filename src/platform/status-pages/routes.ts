// Status pages: which cards of services people see, where, and how they look.
import { randomUUID } from 'node:crypto'
import * as z from 'zod'
import {
  StatusPage,
  StatusPageInput,
  Subscription,
  SubscriptionsInput,
  SubscriptionsMade,
} from './schema.ts'
import { EMAIL_UNSENT } from '../../contract/unwatched.ts'
import type { Database, Queryable } from '../../database/database.ts'
import { isDuplicate } from '../../database/database-failure.ts'
import {
  changeStatusPage,
  deleteStatusPage,
  deleteSubscription,
  insertStatusPage,
  listStatusPages,
  listSubscriptions,
  readStatusPage,
  setCards,
  type PageFields,
} from './queries.ts'
import { notFound, ApiError } from '../http/errors.ts'
import { pageJson, pageOf, pageParameters } from '../http/listing.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'

const TAG = 'Status Pages'
const PATH = '/v1/status-pages'
const ONE = `${PATH}/{statusPageId}`
const params = { statusPageId: idParameter('status page') }
const TAKEN = 'Another status page has this url or custom domain'

/** The operations on status pages and on subscriptions to them. */
export function statusPageOperations(database: Database): DefinedOperation[] {
  return [
    ...reads(database),
    ...writes(database),
    remove(database),
    listOfSubscriptions(database),
    ...subscriptionWrites(database),
  ]
}

function reads(database: Database): DefinedOperation[] {
  return [
    defineOperation({
      operationId: 'getV1Statuspages',
      tag: TAG,
      summary: 'List status pages',
      method: 'get',
      path: PATH,
      action: 'read',
      query: pageParameters('status-pages'),
      answers: {
        status: 200,
        schema: pageOf(StatusPage, 'StatusPagesPage'),
        description: 'A page of status pages, newest first',
      },
      async answer({ key, query: { limit, nextId: after } }) {
        const page = await listStatusPages(database, { owner: key.accountId, limit, after })
        return { status: 200, json: pageJson('status-pages', page) }
      },
    }),
    defineOperation({
      operationId: 'getV1StatuspagesStatuspageid',
      tag: TAG,
      summary: 'Read a status page',
      method: 'get',
      path: ONE,
      action: 'read',
      params,
      answers: { status: 200, schema: StatusPage, description: 'The status page' },
      async answer({ key, params: { statusPageId } }) {
        const json = await readStatusPage(database, key.accountId, statusPageId)
        if (json === undefined) throw notFound('status page')
        return { status: 200, json }
      },
    }),
  ]
}

function writes(database: Database): DefinedOperation[] {
  const common = { tag: TAG, action: 'write' as const, body: StatusPageInput, conflict: TAKEN }
  return [
    defineOperation({
      ...common,
      operationId: 'postV1Statuspages',
      summary: 'Create a status page',
      method: 'post',
      path: PATH,
      answers: { status: 201, schema: StatusPage, description: 'The status page' },
      async answer({ key, body }) {
        const page = pageFields(randomUUID(), key.accountId, body)
        const json = await written(database, page, body, async (tx) => {
          await insertStatusPage(tx, page)
        })
        return { status: 201, json }
      },
    }),
    defineOperation({
      ...common,
      operationId: 'putV1StatuspagesStatuspageid',
      summary: 'Replace a status page',
      method: 'put',
      path: ONE,
      params,
      answers: { status: 200, schema: StatusPage, description: 'The status page' },
      async answer({ key, params: { statusPageId }, body }) {
        const page = pageFields(statusPageId, key.accountId, body)
        const json = await written(database, page, body, async (tx) => {
          if (!(await changeStatusPage(tx, page))) throw notFound('status page')
        })
        return { status: 200, json }
      },
    }),
  ]
}

function remove(database: Database): DefinedOperation {
  return defineOperation({
    operationId: 'deleteV1StatuspagesStatuspageid',
    tag: TAG,
    summary: 'Delete a status page with its subscriptions',
    method: 'delete',
    path: ONE,
    action: 'write',
    params,
    answers: { status: 204, description: 'The status page is deleted' },
    async answer({ key, params: { statusPageId } }) {
      const deleted = await deleteStatusPage(database, key.accountId, statusPageId)
      if (!deleted) throw notFound('status page')
      return { status: 204 }
    },
  })
}

function listOfSubscriptions(database: Database): DefinedOperation {
  return defineOperation({
    operationId: 'getV1StatuspagesStatuspageidSubscriptions',
    tag: TAG,
    summary: 'List subscriptions to a status page',
    method: 'get',
    path: `${ONE}/subscriptions`,
    action: 'read',
    params,
    answers: {
      status: 200,
      schema: z.array(Subscription),
      description: 'All subscriptions, newest first',
    },
    async answer({ key, params: { statusPageId } }) {
      await checkPage(database, key.accountId, statusPageId)
      return { status: 200, json: await listSubscriptions(database, statusPageId) }
    },
  })
}

function subscriptionWrites(database: Database): DefinedOperation[] {
  const subscription = { ...params, subscriptionId: idParameter('subscription') }
  return [
    defineOperation({
      operationId: 'postV1StatuspagesStatuspageidSubscriptionsBulk',
      tag: TAG,
      summary: 'Subscribe addresses to a status page',
      method: 'post',
      path: `${ONE}/subscriptions/bulk`,
      action: 'write',
      params,
      body: z.unknown(),
      bodyShown: SubscriptionsInput,
      answers: { status: 201, schema: SubscriptionsMade, description: 'How many there are' },
      notImplemented: EMAIL_UNSENT,
      async answer() {
        throw new ApiError(501, EMAIL_UNSENT)
      },
    }),
    defineOperation({
      operationId: 'deleteV1StatuspagesStatuspageidSubscriptionsSubscriptionid',
      tag: TAG,
      summary: 'End a subscription',
      method: 'delete',
      path: `${ONE}/subscriptions/{subscriptionId}`,
      action: 'write',
      params: subscription,
      answers: { status: 204, description: 'The subscription is ended' },
      async answer({ key: { accountId }, params: { statusPageId: pageId, subscriptionId: id } }) {
        const deleted = await deleteSubscription(database, { accountId, pageId, id })
        if (!deleted) throw notFound('subscription')
        return { status: 204 }
      },
    }),
  ]
}

async function checkPage(database: Database, accountId: string, id: string): Promise<void> {
  const json = await readStatusPage(database, accountId, id)
  if (json === undefined) throw notFound('status page')
}

function pageFields(id: string, accountId: string, body: StatusPageInput): PageFields {
  const { name, url, description, themeColors, logo, logoDark, redirectTo, favicon } = body
  const { defaultTheme } = body
  const customDomain = body.customDomain?.toLowerCase() ?? null
  const looks = { description, themeColors, logo, logoDark, redirectTo, favicon, defaultTheme }
  return { id, accountId, name, url, customDomain, looks }
}

/** Writes the page by `write` and its cards, all or nothing, and answers with it. */
async function written(
  database: Database,
  page: PageFields,
  body: StatusPageInput,
  write: (tx: Queryable) => Promise<void>,
): Promise<string> {
  const cards = body.cards.map((card) => ({
    id: randomUUID(),
    name: card.name,
    serviceIds: [...new Set(card.services.map((service) => service.id.toLowerCase()))],
  }))
  try {
    return await database.transaction(async (tx) => {
      await write(tx)
      const missing = await setCards(tx, page, cards)
      if (missing[0] !== undefined) throw notFound(`service: ${missing[0]}`)
      return (await readStatusPage(tx, page.accountId, page.id)) ?? ''
    })
  } catch (error) {
    if (isDuplicate(error, 'status_pages_url_taken')) {
      throw new ApiError(409, `Another status page has the url "${page.url}"`)
    }
    if (isDuplicate(error, 'status_pages_custom_domain_taken')) {
      throw new ApiError(409, 'Another status page has this custom domain')
    }
    throw error
  }
}
