// Aim: a refused notification blocks no others for long, a past failure raises no alarm, and all others of a
// monitor arrive in order, also when a receiver refuses everything for long. Uses fake time.
import { randomUUID } from 'node:crypto'
import { afterEach, describe, expect, test } from 'vitest'
import type { AlertPayload } from '../../../src/contract/api/alert-payload.ts'
import { ALERT_BOUNDS } from '../../../src/platform/alerts/channel-schema.ts'
import { spreadOut } from '../../../src/platform/alerts/webhook-outbox.ts'
import type { Database } from '../../../src/database/database.ts'
import {
  type Answer,
  type GivenPayload,
  statuses,
  useOutbox,
} from '../../support/platform/alerts/outbox.ts'

const SECOND = 1000
const START = Date.UTC(2026, 5, 1)

const { db, start, receiver, channel, post, posted, rows, settled } = useOutbox()
afterEach(() => db().query('delete from alert_notifications'))

const states = async () => (await settled()).map(({ state }) => state)
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
  const real = db()
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

/** Posts three to a receiver that answers `status` to the first one, and 204 to all others. */
async function refusingFirst(status: () => number) {
  const to = await receiver((response, _n, { payload }) => {
    response.writeHead(payload.title === 'a' ? status() : 204).end()
  })
  const { pass, now } = startMoved()
  await post(await channel({ url: to.url }), ['a', 'b', 'c'])
  return { to, pass, now }
}
const OTHERS_SENT = [
  { title: 'b', state: 'sent', attempts: 1 },
  { title: 'c', state: 'sent', attempts: 1 },
]

test('newer ones are sent within a minute when a receiver refuses the first (400)', async () => {
  const { to, pass, now } = await refusingFirst(() => 400)
  for (let passed = 0; passed < 30; passed += 5) await pass(5 * SECOND)
  expect(now() - START).toBeLessThan(ALERT_BOUNDS.blockMs)
  expect(to.titles()).toEqual(['a', 'a', 'a', 'b', 'c'])
  const refused = { title: 'a', state: 'failed', attempts: 3, status: 400 }
  expect(await rows()).toMatchObject([refused, ...OTHERS_SENT])
})

test('newer ones wait for a minute when the first fails (500), which is retried', async () => {
  let status = 500
  const { to, pass } = await refusingFirst(() => status)
  await pass(ALERT_BOUNDS.blockMs - SECOND)
  expect(new Set(to.titles())).toEqual(new Set(['a']))
  await pass(2 * SECOND)
  await pass(0)
  expect(await rows()).toMatchObject([{ state: 'waiting', status: 500 }, ...OTHERS_SENT])
  expect(to.titles().filter((title) => title !== 'a')).toEqual(['b', 'c'])
  status = 204
  await pass(10 * 60 * SECOND)
  expect(await states()).toEqual(['sent', 'sent', 'sent'])
})

/** Answers the request number `held` when `answer` is called, and others at once. */
async function receiverHolding(held: number, others: Answer = statuses(204)) {
  const answer = Promise.withResolvers<number>()
  const to = await receiver((response, n, arrived) => {
    if (n !== held) others(response, n, arrived)
    else void answer.promise.then((status) => response.writeHead(status).end())
  })
  return { to, id: await channel({ url: to.url }), topic: randomUUID(), answer: answer.resolve }
}

test('a newer one waits for an attempt of the first, however long that has failed', async () => {
  const { to, id, topic, answer } = await receiverHolding(1, statuses(500, 204))
  await post(id, ['a'], topic)
  start({ againMs: spreadOut })
  await expect.poll(async () => (await rows())[0]?.status).toBe(500)
  await db().query(
    'update alert_notifications set next_at = clock_timestamp(), held_until = clock_timestamp()',
  )
  await to.waitFor(2)
  await post(id, ['b'], topic)
  // All due notifications are claimed before later ones.
  await post(id, ['other'])
  await to.waitFor(3)
  answer(204)
  await settled()
  expect(to.titles()).toEqual(['a', 'a', 'other', 'b'])
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
  const accepted = to.arrived.slice(refused).map(({ payload }) => payload)
  const since = new Date(START).toISOString()
  expect(accepted.toSorted((a, b) => a.type.localeCompare(b.type))).toMatchObject([
    { type: 'alert.failure', alert: { since: new Date(second).toISOString() }, late: true },
    {
      id: all[2]?.id,
      type: 'alert.recovery',
      title: 'Shop "A" failed and has recovered',
      alert: { since },
      failure: { id: all[0]?.id, at: since, run: null },
      late: true,
    },
  ])
  expect(all[0]?.message).toContain(all[2]?.id)
})

describe('a failure and its recovery', () => {
  test('that both wait become one notification', async () => {
    const to = await receiver()
    const run = { location: 'l', slot: 's', verdict: 'failed', failures: [] } as never
    const known = { ...failure(), run }
    await post(await channel({ url: to.url }), [known, reminder(START), recovery(START)])
    start()
    expect(await states()).toEqual(['merged', 'merged', 'sent'])
    const payload = { type: 'alert.recovery', run: null, failure: { run } }
    expect(to.arrived).toMatchObject([{ payload }])
  })

  test.each([
    [204, false],
    [500, true],
  ])('are merged only when the attempt that is under way fails (%i)', async (status, isMerged) => {
    const { to, id, topic, answer } = await receiverHolding(0)
    await post(id, [failure()], topic)
    start({ againMs: spreadOut })
    await to.waitFor(1)
    await post(id, [recovery(START)], topic)
    // All other due notifications have been claimed before later ones.
    await post(id, ['other'])
    await to.waitFor(2)
    answer(status)
    await settled()
    const last = isMerged ? 'Shop "A" failed and has recovered' : 'alert.recovery'
    expect(to.titles()).toEqual(['alert.failure', 'other', last])
    const [first, , third] = to.arrived.map(({ payload }) => payload)
    expect(third?.failure?.id).toBe(isMerged ? first?.id : undefined)
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
      db().query(
        `select from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'`,
      )
    await db().transaction(async (tx) => {
      await lease(tx, 60)
      start()
      await expect.poll(waiting).toHaveLength(1)
    })
    await post(id, ['other'])
    await to.waitFor(1)
    await lease(db(), 0)
    expect(await states()).toEqual(['merged', 'sent', 'sent'])
    expect(to.titles()[0]).toBe('other')
  })

  test('of different outages are distinguished', async () => {
    const to = await receiver()
    await post(await channel({ url: to.url }), [failure(), recovery(START, START - SECOND)])
    start()
    await settled()
    expect(to.titles()).toEqual(['alert.failure', 'alert.recovery'])
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
    const bySince = Map.groupBy(to.arrived, ({ payload }) => payload.alert.since)
    const orders = [...bySince.values()].map((all) =>
      all.map(({ payload: { type, failure: merged } }) => `${type}${merged ? '+' : ''}`).join(' '),
    )
    expect(orders).toHaveLength(topics.length)
    const right = new Set(['alert.recovery+', 'alert.failure alert.recovery'])
    expect(orders.filter((one) => !right.has(one))).toEqual([])
  })
})

type Outcome = [codes: number[], state: string, attempts: number]

test.each<Outcome>([
  ...[400, 404, 410, 413, 422].map((status): Outcome => [[status], 'failed', 3]),
  ...[403, 429, 503].map((status): Outcome => [[status, status, status, status, 204], 'sent', 5]),
  // Refusals count separately, however often the receiver was unreachable before.
  [[503, 503, 503, 404, 404, 204], 'sent', 6],
])('by the answers %j a notification is %s after %i attempts', async (codes, state, attempts) => {
  await posted(statuses(...codes))
  start({ againMs: () => 1 })
  expect(await settled()).toMatchObject([{ state, attempts, status: codes.at(-1) }])
})

test('a notification sent later than the bound after its event is marked as late', async () => {
  const to = await receiver()
  const id = await channel({ url: to.url })
  const boundMs = ALERT_BOUNDS.lateAfterS * SECOND
  await post(id, [alertAt('alert.failure', START - boundMs, START)])
  await post(id, [alertAt('alert.recovery', START - boundMs - 1, START)])
  start({ now: () => START })
  await settled()
  const late = to.arrived.map(({ payload }) => [payload.type, payload.late])
  expect(Object.fromEntries(late)).toEqual({ 'alert.failure': undefined, 'alert.recovery': true })
})
