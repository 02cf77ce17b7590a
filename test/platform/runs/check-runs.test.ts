// Aim: a requested run is created once for each location, can be followed until it ends with its newest progress,
// and can be cancelled. An agent that no longer has a run reports nothing about it.
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { handBackRuns, noteProgress } from '../../../src/platform/runs/queries/runs.ts'
import { type RunScene, useRuns } from '../../support/platform/runs/asked-runs.ts'
import { DATABASE_SERVERS, useDatabase } from '../../support/database/database.ts'
import { addLocation } from '../../support/platform/locations.ts'
import { addAgent, addMonitor } from '../../support/platform/monitor-rows.ts'

const runs = useRuns(useDatabase(DATABASE_SERVERS[0]))
const { addClient, db, whenNotified, scene, ask, sync, running, resultOf, finish, read } = runs

describe('requesting', () => {
  test('makes one run for each location, and notifies the agents of each', async () => {
    const client = await addClient()
    const locations = [await addLocation(db(), client), await addLocation(db(), client)]
    const id = await addMonitor(db(), client.accountId, { locations })
    const { status, body } = await client.call('POST', `/v1/checks/${id}/runs`, { body: {} })
    expect(status).toBe(201)
    const slugs = body.runs.map((one: { location: string }) => one.location)
    expect(slugs.toSorted()).toEqual(locations.map((one) => one.slugName).toSorted())
    expect(body.runs[0]).toMatchObject({
      checkId: id,
      checkName: 'the shop',
      state: 'queued',
      verdict: null,
      askedBy: 'the Admin key',
    })
    await Promise.all(locations.map((one) => whenNotified(one.id)))
  })

  test('accepts named locations, and only those of the check', async () => {
    const client = await addClient()
    const [one, two] = [await addLocation(db(), client), await addLocation(db(), client)]
    const other = await addLocation(db(), client)
    const id = await addMonitor(db(), client.accountId, { locations: [one, two] })
    const path = `/v1/checks/${id}/runs`
    const named = await client.call('POST', path, { body: { locations: [two.slugName] } })
    expect(named.body.runs.map((run: { location: string }) => run.location)).toEqual([two.slugName])
    const foreign = await client.call('POST', path, { body: { locations: [other.slugName] } })
    expect(foreign.status).toBe(400)
    expect(foreign.body.message).toContain(other.slugName)
  })

  test('runs deactivated checks, not deleted ones or those of other accounts', async () => {
    const off = await scene({ activated: false })
    expect(await ask(off)).toEqual(expect.any(String))
    await db().query('update monitors set deleted_at = now() where id = $1', [off.monitorId])
    expect((await off.client.call('POST', off.path, { body: {} })).status).toBe(404)
    expect((await off.client.call('GET', off.path)).status).toBe(200)
    const stranger = await addClient()
    expect((await stranger.call('POST', off.path, { body: {} })).status).toBe(404)
    expect((await stranger.call('GET', off.path)).status).toBe(404)
  })

  test.each([
    { role: 'Read Only' as const, status: 403 },
    { role: 'Read & Run' as const, status: 201 },
  ])('$role gets $status', async ({ role, status }) => {
    const one = await scene()
    const { accountId } = one.client
    const client = await addClient({ accountId, role })
    expect((await client.call('POST', one.path, { body: {} })).status).toBe(status)
  })

  test('is refused past the open runs that a location may have', async () => {
    const one = await scene()
    await db().query(
      `insert into runs (id, account_id, monitor_id, location_id, state, asked_by)
       select gen_random_uuid(), $1, $2, $3, 'queued', 'x' from generate_series(1, 999)`,
      [one.client.accountId, one.monitorId, one.location.id],
    )
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => one.client.call('POST', one.path, { body: {} })),
    )
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
      201, 409, 409, 409,
    ])
  })

  test('lists the newest first', async () => {
    const one = await scene()
    const ids = [await ask(one), await ask(one), await ask(one)]
    const { body } = await one.client.call('GET', `${one.path}?limit=2`)
    expect(body.entries.map(({ id }: { id: string }) => id)).toEqual([ids[2], ids[1]])
    const { body: rest } = await one.client.call('GET', `${one.path}?nextId=${body.nextId}`)
    expect(rest.entries.map(({ id }: { id: string }) => id)).toEqual([ids[0]])
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

  test(
    'does not wait for a finished run or one with another known state',
    { timeout: 10_000 },
    async () => {
      const one = await scene()
      const id = await ask(one)
      const other = await read(one, id, '?waitMs=25000&knownState=running')
      expect(other.state).toBe('queued')
      await finish(one, resultOf(id, one))
      expect((await read(one, id, '?waitMs=25000')).state).toBe('finished')
    },
  )

  test.each(['waitMs=25001', 'waitMs=-1', 'waitMs=x', 'knownState=gone'])(
    'refuses %s',
    async (query) => {
      const one = await scene()
      const path = `${one.path}/${await ask(one)}?${query}`
      expect((await one.client.call('GET', path)).status).toBe(400)
    },
  )
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
    const foreign = await other.client.call('POST', `${other.path}/${id}/cancel`)
    expect(foreign.status).toBe(404)
    const unknown = await one.client.call('POST', `${one.path}/${randomUUID()}/cancel`)
    expect(unknown.status).toBe(404)
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
  const begun = {
    monitorId: one.monitorId,
    slot: 1_760_000_000_000,
    startedAt: 1_760_000_000_250,
  }
  const report = async (slots: object[], state = 'live') => {
    const queues = JSON.stringify({ scripted: { slots } })
    await db().query('update agents set queues = $2, state = $3 where id = $1', [
      one.agentId,
      queues,
      state,
    ])
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
  // The same progress again does not count as new.
  await say(one, id, { done: 1 })
  await say(one, id, { done: 2 })
  expect((await again).progress.done).toBe(2)
  const stale = await read(one, id, `?waitMs=20000&knownState=running${known}`)
  expect(stale.progress.done).toBe(2)
})

test('a read that waits for a state is answered by a new state only', async () => {
  const { one, id } = await running()
  const waiting = read(one, id, '?waitMs=20000&knownState=running')
  await say(one, id, { done: 1 })
  await finish(one, resultOf(id, one))
  expect((await waiting).state).toBe('finished')
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
