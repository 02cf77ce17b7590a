// Aim: a requested run is created once for each location, can be followed with its progress, and cancelled.
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { handBackRuns, noteProgress } from '../../../src/platform/runs/queries/runs.ts'
import { type RunScene, useRuns } from '../../support/platform/runs/asked-runs.ts'
import { DATABASE_SERVERS, useDatabase } from '../../support/database/database.ts'
import { addLocation } from '../../support/platform/locations.ts'
import { addAgent, addMonitor } from '../../support/platform/monitor-rows.ts'
import type { ApiClient } from '../../support/platform/public-api.ts'

const runs = useRuns(useDatabase(DATABASE_SERVERS[0]))
const { addClient, db, whenNotified, scene, ask, sync, running, resultOf, finish, read } = runs

describe('requesting', () => {
  test('makes one run for each location or the named ones, and notifies the agents of each', async () => {
    const client = await addClient()
    const [one, two] = [await addLocation(db(), client), await addLocation(db(), client)]
    const id = await addMonitor(db(), client.accountId, { locations: [one, two] })
    const post = (body: object) => client.call('POST', `/v1/checks/${id}/runs`, { body })
    const { status, body } = await post({})
    expect(status).toBe(201)
    const slugs = body.runs.map((run: { location: string }) => run.location)
    expect(slugs.toSorted()).toEqual([one.slugName, two.slugName].toSorted())
    const run = { checkId: id, checkName: 'the shop', state: 'queued', verdict: null }
    expect(body.runs[0]).toMatchObject({ ...run, askedBy: 'the Admin key' })
    await Promise.all([whenNotified(one.id), whenNotified(two.id)])
    const named = await post({ locations: [two.slugName] })
    expect(named.body.runs).toMatchObject([{ location: two.slugName }])
    const { slugName } = await addLocation(db(), client)
    const foreign = await post({ locations: [slugName] })
    expect([foreign.status, foreign.body.message]).toEqual([400, expect.stringContaining(slugName)])
  })

  test('runs deactivated checks for whom may, not deleted ones or those of other accounts', async () => {
    const { client, monitorId, path } = await scene({ activated: false })
    const { accountId } = client
    const post = async (by: ApiClient) => (await by.call('POST', path, { body: {} })).status
    expect(await post(await addClient({ accountId, role: 'Read & Run' }))).toBe(201)
    expect(await post(await addClient({ accountId, role: 'Read Only' }))).toBe(403)
    await db().query('update monitors set deleted_at = now() where id = $1', [monitorId])
    const stranger = await addClient()
    expect([await post(client), await post(stranger)]).toEqual([404, 404])
    expect((await client.call('GET', path)).status).toBe(200)
    expect((await stranger.call('GET', path)).status).toBe(404)
  })

  test('is refused past the open runs that a location may have', async () => {
    const one = await scene()
    await db().query(
      `insert into runs (id, account_id, monitor_id, location_id, state, asked_by)
       select gen_random_uuid(), $1, $2, $3, 'queued', 'x' from generate_series(1, 999)`,
      [one.client.accountId, one.monitorId, one.location.id],
    )
    const asking = Array.from({ length: 4 }, () => one.client.call('POST', one.path, { body: {} }))
    const statuses = (await Promise.all(asking)).map(({ status }) => status)
    expect(statuses.toSorted((a, b) => a - b)).toEqual([201, 409, 409, 409])
  })

  test('lists the newest first', async () => {
    const one = await scene()
    const ids = [await ask(one), await ask(one), await ask(one)]
    const { body } = await one.client.call('GET', `${one.path}?limit=2`)
    expect(body.entries).toMatchObject([{ id: ids[2] }, { id: ids[1] }])
    const { body: rest } = await one.client.call('GET', `${one.path}?nextId=${body.nextId}`)
    expect(rest.entries).toMatchObject([{ id: ids[0] }])
  })
})

describe('following', () => {
  test('is answered by the change and not by time', { timeout: 10_000 }, async () => {
    const one = await scene()
    const id = await ask(one)
    const following = read(one, id, '?waitMs=20000&knownState=queued')
    const [body] = await Promise.all([following, sync(one)])
    expect(body.state).toBe('sent')
    const end = read(one, id, '?waitMs=20000&knownState=sent')
    const [ended] = await Promise.all([end, finish(one, resultOf(id, one))])
    expect(ended).toMatchObject({ state: 'finished', verdict: 'passed' })
  })

  test('does not wait for a finished run or another state', { timeout: 10_000 }, async () => {
    const one = await scene()
    const id = await ask(one)
    expect((await read(one, id, '?waitMs=25000&knownState=running')).state).toBe('queued')
    await finish(one, resultOf(id, one))
    expect((await read(one, id, '?waitMs=25000')).state).toBe('finished')
    for (const query of ['waitMs=25001', 'waitMs=-1', 'waitMs=x', 'knownState=gone']) {
      expect(await read(one, id, `?${query}`)).toMatchObject({ statusCode: 400 })
    }
  })
})

describe('cancelling', () => {
  test('ends a run without an agent at once, and is idempotent', async () => {
    const one = await scene()
    const path = `${one.path}/${await ask(one)}`
    for (const _ of [1, 2]) {
      const { status, body } = await one.client.call('POST', `${path}/cancel`)
      expect(status).toBe(200)
      expect(body).toMatchObject({ state: 'finished', verdict: 'cancelled', result: null })
    }
    expect((await sync(one)).runs).toEqual([])
  })

  test('is sent to its agent until its result is there', async () => {
    const { one, id } = await running()
    runs.forgetNotified()
    const { body } = await one.client.call('POST', `${one.path}/${id}/cancel`)
    expect(body).toMatchObject({ state: 'running', cancelRequested: true, verdict: null })
    await whenNotified(one.location.id)
    for (const _ of [1, 2]) {
      expect((await sync(one, [{ run: id, state: 'running' }])).cancel).toEqual([id])
    }
    await finish(one, resultOf(id, one, { verdict: 'cancelled' }))
    expect((await sync(one)).cancel).toEqual([])
  })

  test('ends by itself when its agent is lost', async () => {
    const one = await scene()
    const id = await ask(one)
    await sync(one, [])
    await one.client.call('POST', `${one.path}/${id}/cancel`)
    await db().query(`update agents set state = 'lost' where id = $1`, [one.agentId])
    await runs.stale()
    expect((await read(one, id)).verdict).toBe('cancelled')
  })

  test('of a foreign or unknown run is refused', async () => {
    const [one, other] = [await scene(), await scene()]
    const id = await ask(one)
    const cancel = async ({ client, path }: RunScene, run: string) =>
      (await client.call('POST', `${path}/${run}/cancel`)).status
    expect([await cancel(other, id), await cancel(one, randomUUID())]).toEqual([404, 404])
    expect((await sync(one)).runs).toHaveLength(1)
  })
})

const say = async ({ location, agentId }: RunScene, run: string, more: object) => {
  const [agent] = await db().query<{ instance: string }>(
    'select instance from agents where id = $1',
    [agentId],
  )
  const from = { locationId: location.id, id: agentId, instance: agent?.instance ?? '' }
  await noteProgress(db(), from, [{ run, phase: 'test', ...more }])
}

test('the newest progress is shown while it runs, and not afterwards', async () => {
  const { one, id } = await running()
  expect((await read(one, id)).progress).toBeNull()
  await say(one, id, { phase: 'install', line: 'npm ci' })
  expect((await read(one, id)).progress).toEqual({
    phase: 'install',
    done: null,
    total: null,
    line: 'npm ci',
    at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]{12}Z$/),
  })
  await say(one, id, { done: 3, total: 10 })
  expect((await read(one, id)).progress).toMatchObject({ phase: 'test', done: 3, total: 10 })
  await finish(one, resultOf(id, one))
  expect((await read(one, id)).progress).toBeNull()
})

test('a scheduled run is shown as long as its agent reports it', async () => {
  const one = await scene()
  const other = await scene()
  const path = `/v1/checks/${one.monitorId}/under-way`
  const shown = async () => (await one.client.call('GET', path)).body.underWay
  expect(await shown()).toEqual([])
  const times = { slot: 1_760_000_000_000, startedAt: 1_760_000_000_250 }
  const begun = { monitorId: one.monitorId, ...times }
  const report = (slots: object[], state = 'live') => {
    const values = [one.agentId, JSON.stringify({ scripted: { slots } }), state]
    return db().query('update agents set queues = $2, state = $3 where id = $1', values)
  }
  await report([begun, { ...begun, monitorId: other.monitorId }])
  expect(await shown()).toEqual([
    {
      location: one.location.slugName,
      agentId: one.agentId,
      slot: '2025-10-09T08:53:20.000Z',
      startedAt: '2025-10-09T08:53:20.250Z',
      progress: null,
    },
  ])
  await report([{ ...begun, phase: 'test', done: 3, total: 10 }])
  expect((await shown())[0].progress).toMatchObject({ phase: 'test', done: 3, line: null })
  // Of a monitor in another account, and of an agent that is lost, nothing is shown.
  expect((await other.client.call('GET', path)).status).toBe(404)
  await report([begun], 'lost')
  expect(await shown()).toEqual([])
})

test('a waiting read with knownProgress is answered by new progress', async () => {
  const { one, id } = await running()
  const waiting = read(one, id, '?waitMs=20000&knownState=running&knownProgress=none')
  await say(one, id, { done: 1 })
  const { progress, state } = await waiting
  expect([state, progress.done]).toEqual(['running', 1])
  const known = `&knownProgress=${encodeURIComponent(progress.at)}`
  const again = read(one, id, `?waitMs=20000&knownState=running${known}`)
  // The same progress again does not count as new; a read for a state is answered by a new state only.
  const ofState = read(one, id, '?waitMs=20000&knownState=running')
  await say(one, id, { done: 1 })
  await say(one, id, { done: 2 })
  expect((await again).progress.done).toBe(2)
  const stale = await read(one, id, `?waitMs=20000&knownState=running${known}`)
  expect(stale.progress.done).toBe(2)
  await finish(one, resultOf(id, one))
  expect((await ofState).state).toBe('finished')
})

test('progress that a lost agent reported is discarded', async () => {
  const { one, id } = await running()
  await say(one, id, { done: 9 })
  await handBackRuns(db(), { locationId: one.location.id, agentId: one.agentId })
  expect((await read(one, id)).progress).toBeNull()
  const second = { ...one, agentId: await addAgent(db(), one.location.id) }
  expect((await sync(second)).runs).toHaveLength(1)
  expect((await read(one, id)).progress).toBeNull()
  await say(one, id, { done: 10 })
  expect((await read(one, id)).progress).toBeNull()
  await say(second, id, { done: 1 })
  expect((await read(one, id)).progress.done).toBe(1)
})
