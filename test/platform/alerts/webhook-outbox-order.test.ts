// Aim: a refused notification blocks no others for long, a past failure raises no alarm, and all others of a
// monitor arrive in order, also when a receiver refuses everything for long. Uses fake time.
import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { afterEach, describe, expect, test } from 'vitest'
import type { AlertPayload } from '../../../src/contract/api/alert-payload.ts'
import { ALERT_BOUNDS } from '../../../src/platform/alerts/channel-schema.ts'
import { spreadOut } from '../../../src/platform/alerts/webhook-outbox.ts'
import type { Database } from '../../../src/database/database.ts'
import type { Arrived } from '../../support/platform/alerts/alerted-account.ts'
import { statuses, useOutbox, type GivenPayload } from '../../support/platform/alerts/outbox.ts'

const SECOND = 1000
const START = Date.UTC(2026, 5, 1)

const { database, start, receiver, channel, post, rows, settled } = useOutbox()
afterEach(() => database().database.query('delete from alert_notifications'))

const bodyOf = ({ body }: Arrived) => JSON.parse(body) as AlertPayload & { id: string }
const alertAt = (kind: AlertPayload['type'], atMs: number, sinceMs: number): GivenPayload => ({
  type: kind,
  title: kind,
  at: new Date(atMs).toISOString(),
  alert: { since: new Date(sinceMs).toISOString() },
})
const failure = (sinceMs = START) => alertAt('alert.failure', sinceMs, sinceMs)
const reminder = (atMs: number, sinceMs = START) => alertAt('alert.reminder', atMs, sinceMs)
const recovery = (atMs: number, sinceMs = START) => alertAt('alert.recovery', atMs, sinceMs)

/** A sender with the real waits, whose clock `pass` advances when it is idle. */
function startMoved() {
  const real = database().database
  let [nowMs, underWay, asked, wanted] = [START, 0, 0, 0]
  let idle = Promise.withResolvers<void>()
  const query: Database['query'] = async (statement, values) => {
    const name = typeof statement === 'string' ? undefined : statement.name
    const number = ++asked
    const found = await real.query(statement, values)
    if (name === 'alert-notification-note') underWay--
    if (name === 'alert-notifications-claim') {
      underWay += found.length
      if (underWay === 0 && number > wanted) idle.resolve()
    }
    return found
  }
  start({
    againMs: spreadOut,
    now: () => nowMs,
    database: { query, transaction: (...given) => real.transaction(...given) },
  })
  const rest = async () => {
    wanted = asked
    idle = Promise.withResolvers<void>()
    await idle.promise
  }
  const pass = async (ms: number) => {
    await rest()
    nowMs += ms
    await real.query(
      `update alert_notifications set
         next_at = next_at - make_interval(secs => $1::double precision / 1000),
         held_until = held_until - make_interval(secs => $1::double precision / 1000)`,
      [ms],
    )
    await rest()
  }
  return { pass, now: () => nowMs }
}

/** Answers `status` to the first id that arrives, and 204 to all others. */
function refusingOne(status: () => number) {
  let refused: string | undefined
  return (response: ServerResponse, _n: number, arrived: Arrived) => {
    const id = String(arrived.headers['webhook-id'])
    refused ??= id
    response.writeHead(id === refused ? status() : 204).end()
  }
}

test('newer ones are sent within a minute when a receiver refuses the first (400)', async () => {
  const to = await receiver(refusingOne(() => 400))
  const { pass, now } = startMoved()
  await post(await channel({ url: to.url }), ['a', 'b', 'c'])
  for (let passed = 0; passed < 30; passed += 5) await pass(5 * SECOND)
  expect(now() - START).toBeLessThan(ALERT_BOUNDS.blockMs)
  expect(to.arrived.map((one) => bodyOf(one).title)).toEqual(['a', 'a', 'a', 'b', 'c'])
  expect(await rows()).toMatchObject([
    { title: 'a', state: 'failed', attempts: 3, status: 400 },
    { title: 'b', state: 'sent', attempts: 1 },
    { title: 'c', state: 'sent', attempts: 1 },
  ])
})

test('newer ones wait for a minute when the first fails (500), which is retried', async () => {
  let status = 500
  const to = await receiver(refusingOne(() => status))
  const { pass } = startMoved()
  await post(await channel({ url: to.url }), ['a', 'b', 'c'])
  await pass(ALERT_BOUNDS.blockMs - SECOND)
  expect(new Set(to.arrived.map((one) => bodyOf(one).title))).toEqual(new Set(['a']))
  await pass(2 * SECOND)
  await pass(0)
  expect(await rows()).toMatchObject([
    { title: 'a', state: 'waiting', status: 500 },
    { title: 'b', state: 'sent', attempts: 1 },
    { title: 'c', state: 'sent', attempts: 1 },
  ])
  const arrived = to.arrived.map((one) => bodyOf(one).title).filter((title) => title !== 'a')
  expect(arrived).toEqual(['b', 'c'])
  status = 204
  await pass(10 * 60 * SECOND)
  expect(await settled()).toMatchObject([{ title: 'a', state: 'sent' }, {}, {}])
})

/** Answers the request number `held` when it is told to, and others at once. */
async function receiverHolding(held: number, others: (n: number) => number = () => 204) {
  const answer = Promise.withResolvers<number>()
  const to = await receiver((response, n) => {
    const end = (status: number) => void response.writeHead(status).end()
    if (n === held) void answer.promise.then(end)
    else end(others(n))
  })
  return { to, answer: answer.resolve }
}

test('a newer one waits for an attempt of the first, however long that has failed', async () => {
  const { to, answer } = await receiverHolding(1, (n) => (n === 0 ? 500 : 204))
  const [id, topic] = [await channel({ url: to.url }), randomUUID()]
  await post(id, ['a'], topic)
  start({ againMs: spreadOut })
  await expect.poll(async () => (await rows())[0]?.status).toBe(500)
  await database().database.query(
    'update alert_notifications set next_at = clock_timestamp(), held_until = clock_timestamp()',
  )
  await to.waitFor(2)
  await post(id, ['b'], topic)
  // All due notifications are claimed before later ones.
  await post(id, ['other'])
  await to.waitFor(3)
  answer(204)
  await settled()
  expect(to.arrived.map((one) => bodyOf(one).title)).toEqual(['a', 'a', 'other', 'b'])
})

test('nothing is lost, and no past failure is reported, after ten minutes of refusals', async () => {
  let isBack = false
  const to = await receiver((response) => void response.writeHead(isBack ? 204 : 503).end())
  const { pass, now } = startMoved()
  const [id, topic] = [await channel({ url: to.url }), randomUUID()]
  const until = async (ms: number) => {
    while (now() < START + ms) await pass(30 * SECOND)
  }
  await post(id, [failure()], topic)
  await until(60 * SECOND)
  await post(id, [reminder(now())], topic)
  await until(120 * SECOND)
  await post(id, [recovery(now())], topic)
  await until(300 * SECOND)
  const second = now()
  await post(id, [failure(second)], topic)
  await until(600 * SECOND)
  const refused = to.arrived.length
  isBack = true
  await until(1200 * SECOND)
  const all = await settled()
  expect(all.map(({ state }) => state)).toEqual(['merged', 'merged', 'sent', 'sent'])
  const accepted = to.arrived.slice(refused).map((one) => bodyOf(one))
  expect(accepted).toHaveLength(2)
  const [over, open] = accepted.toSorted((a, b) => a.type.localeCompare(b.type)).toReversed()
  expect(over).toMatchObject({
    id: all[2]?.id,
    type: 'alert.recovery',
    title: 'Shop "A" failed and has recovered',
    alert: { since: new Date(START).toISOString() },
    failure: { id: all[0]?.id, at: new Date(START).toISOString(), run: null },
    late: true,
  })
  expect(open).toMatchObject({
    type: 'alert.failure',
    alert: { since: new Date(second).toISOString() },
    late: true,
  })
  expect(all[0]?.message).toContain(all[2]?.id)
})

describe('a failure and its recovery', () => {
  test('that both wait become one notification', async () => {
    const to = await receiver()
    const run = { location: 'l', slot: 's', verdict: 'failed', failures: [] } as never
    const known = { ...failure(), run }
    await post(await channel({ url: to.url }), [known, reminder(START), recovery(START)])
    start()
    expect((await settled()).map(({ state }) => state)).toEqual(['merged', 'merged', 'sent'])
    const [only, ...more] = to.arrived.map((one) => bodyOf(one))
    expect(only).toMatchObject({ type: 'alert.recovery', run: null, failure: { run } })
    expect(more).toEqual([])
  })

  test.each([
    [204, false],
    [500, true],
  ])('are merged only when the attempt that is under way fails (%i)', async (status, isMerged) => {
    const { to, answer } = await receiverHolding(0)
    const [id, topic] = [await channel({ url: to.url }), randomUUID()]
    await post(id, [failure()], topic)
    start({ againMs: spreadOut })
    await to.waitFor(1)
    await post(id, [recovery(START)], topic)
    // All other due notifications have been claimed before later ones.
    await post(id, ['other'])
    await to.waitFor(2)
    answer(status)
    await settled()
    const arrived = to.arrived.map((one) => bodyOf(one))
    expect(arrived.map(({ title }) => title)).toEqual([
      'alert.failure',
      'other',
      isMerged ? 'Shop "A" failed and has recovered' : 'alert.recovery',
    ])
    expect(arrived[2]?.failure?.id).toBe(isMerged ? arrived[0]?.id : undefined)
  })

  test('stay two while another process begins to send the failure at that moment', async () => {
    const to = await receiver()
    const id = await channel({ url: to.url })
    await post(id, [failure(), recovery(START)])
    const lease = (from: Pick<Database, 'query'>, seconds: number) =>
      from.query(
        `update alert_notifications set next_at = clock_timestamp() + make_interval(secs => $1::int),
           leased_until = clock_timestamp() + make_interval(secs => $1::int)
         where kind = 'alert.failure' and payload ->> 'title' = 'alert.failure'`,
        [seconds],
      )
    const waiting = () =>
      database().database.query(
        `select from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'`,
      )
    await database().database.transaction(async (tx) => {
      await lease(tx, 60)
      start()
      await expect.poll(async () => (await waiting()).length).toBe(1)
    })
    await post(id, ['other'])
    await to.waitFor(1)
    await lease(database().database, 0)
    expect((await settled()).map(({ state }) => state)).toEqual(['merged', 'sent', 'sent'])
    expect(to.arrived.map((one) => bodyOf(one).title)[0]).toBe('other')
  })

  test('of different outages are distinguished', async () => {
    const to = await receiver()
    await post(await channel({ url: to.url }), [failure(), recovery(START, START - SECOND)])
    start()
    await settled()
    const types = to.arrived.map((one) => bodyOf(one).type)
    expect(types).toEqual(['alert.failure', 'alert.recovery'])
  })

  test('arrive in order from any number of processes', async () => {
    const to = await receiver()
    const id = await channel({ url: to.url })
    for (let n = 0; n < 4; n++) start()
    const topics = Array.from({ length: 60 }, (_, n) => ({ topic: randomUUID(), since: START + n }))
    await Promise.all(
      topics.map(async ({ topic, since }) => {
        await post(id, [failure(since)], topic)
        await post(id, [recovery(since, since)], topic)
      }),
    )
    await settled()
    const bodies = to.arrived.map((one) => bodyOf(one))
    const bySince = Object.values(Object.groupBy(bodies, ({ alert }) => alert.since))
    expect(bySince).toHaveLength(topics.length)
    const wrong = bySince.filter((all = []) => {
      const types = all.map(({ type, failure: merged }) => `${type}${merged ? '+' : ''}`).join(' ')
      return !['alert.recovery+', 'alert.failure alert.recovery'].includes(types)
    })
    expect(wrong).toEqual([])
  })
})

describe('a refusal', () => {
  test.each([400, 404, 410, 413, 422])('of %i is final after three tries', async (status) => {
    const to = await receiver(statuses(status))
    await post(await channel({ url: to.url }), ['a'])
    start({ againMs: () => 1 })
    expect(await settled()).toMatchObject([{ state: 'failed', attempts: 3, status }])
  })

  test.each([403, 429, 503])('is not what %i says', async (status) => {
    const to = await receiver(statuses(status, status, status, status, 204))
    await post(await channel({ url: to.url }), ['a'])
    start({ againMs: () => 1 })
    expect(await settled()).toMatchObject([{ state: 'sent', attempts: 5 }])
  })

  test('counts separately, however often the receiver was unreachable before', async () => {
    const to = await receiver(statuses(503, 503, 503, 404, 404, 204))
    await post(await channel({ url: to.url }), ['a'])
    start({ againMs: () => 1 })
    expect(await settled()).toMatchObject([{ state: 'sent', attempts: 6 }])
  })
})

test('a notification sent later than the bound after its event is marked as late', async () => {
  const to = await receiver()
  const id = await channel({ url: to.url })
  const boundMs = ALERT_BOUNDS.lateAfterS * SECOND
  await post(id, [alertAt('alert.failure', START - boundMs, START)])
  await post(id, [alertAt('alert.recovery', START - boundMs - 1, START)])
  start({ now: () => START })
  await settled()
  const late = Object.fromEntries(to.arrived.map((one) => [bodyOf(one).type, bodyOf(one).late]))
  expect(late).toEqual({ 'alert.failure': undefined, 'alert.recovery': true })
})
