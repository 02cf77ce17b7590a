// Aim: clients see the progress of a run as its agent reports it, at once when they wait for it, and nothing from
// an agent that no longer has the run.
import { expect, test } from 'vitest'
import { handBackRuns, noteProgress } from '../../../src/platform/runs/queries/runs.ts'
import { type RunScene, useRuns } from '../../support/platform/runs/asked-runs.ts'
import { DATABASE_SERVERS, useDatabase } from '../../support/database/database.ts'
import { addAgent } from '../../support/platform/monitor-rows.ts'

const { db, scene, sync, running, resultOf, finish, read } = useRuns(
  useDatabase(DATABASE_SERVERS[0]),
)

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
