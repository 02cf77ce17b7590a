// Aim: a run is assigned to one agent and ends exactly once, even when its agent is lost or no agent accepts it.
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { neededText } from '../../../src/platform/agents/assignment.ts'
import { handBackRuns } from '../../../src/platform/runs/queries/runs.ts'
import { useRuns } from '../../support/platform/runs/asked-runs.ts'
import { DATABASE_SERVERS, useDatabase } from '../../support/database/database.ts'
import { addAgent } from '../../support/platform/monitor-rows.ts'

const NEEDED = neededText(['URL'])
const CANNOT = `update agents set abilities = '{TCP}'`

const runs = useRuns(useDatabase(DATABASE_SERVERS[0]))
const { db, scene, ask, sync, running, resultOf, finish, read, stale, dropOld } = runs

describe('an agent', () => {
  test('receives a run until it confirms it, and its result is shown', async () => {
    const one = await scene()
    const id = await ask(one)
    const order = { run: id, monitor: { name: 'the shop' } }
    expect(await sync(one)).toEqual({ runs: [order], cancel: [] })
    expect((await sync(one)).runs).toHaveLength(1)
    expect((await sync(one, [{ run: id, state: 'waiting' }])).runs).toEqual([])
    expect((await sync(one)).runs).toEqual([])
    await sync(one, [{ run: id, state: 'running' }])
    expect((await read(one, id)).state).toBe('running')
    const failures = [{ code: 'CONNECT_REFUSED', message: 'refused' }]
    const file = { name: 'trace.zip', bytes: 3, contentType: 'application/zip' }
    const artifacts = [{ ...file, sha256: 'a'.repeat(64) }]
    const more = { verdict: 'failed' as const, failures, artifacts }
    expect(await finish(one, resultOf(id, one, more))).toEqual([1, 0, 0])
    expect(await read(one, id)).toMatchObject({
      state: 'finished',
      verdict: 'failed',
      result: { durationMs: 12.5, responseTimeMs: 11, attempts: 1, failures, observed: null },
      artifacts: [{ name: 'trace.zip', state: 'awaited', id: null }],
    })
    expect((await sync(one)).cancel).toEqual([])
    await db().query(`update runs set finished_at = now() - interval '25 h' where id = $1`, [id])
    const missing = { name: 'trace.zip', state: 'missing', id: null }
    expect((await read(one, id)).artifacts).toMatchObject([missing])
  })

  test('receives only its own runs, and none when it leaves', async () => {
    const one = await scene()
    await ask(one)
    expect((await sync(one, [], { owner: randomUUID() })).runs).toEqual([])
    expect((await sync(one, [], { leaving: true })).runs).toEqual([])
    // Of all that sync concurrently one receives it.
    const answers = await Promise.all(
      Array.from({ length: 5 }, async () => {
        const agentId = await addAgent(db(), one.location.id)
        return sync({ ...one, agentId }, [], { owner: agentId })
      }),
    )
    expect(answers.flatMap((answer) => answer.runs)).toHaveLength(1)
  })

  test('that was lost loses its run to another, and the first result stays', async () => {
    const { one, id } = await running()
    await db().query(`update agents set state = 'lost' where id = $1`, [one.agentId])
    await stale()
    const second = { ...one, agentId: await addAgent(db(), one.location.id) }
    expect((await sync(second)).runs).toHaveLength(1)
    // The first one is back and learns that the run is no longer its own.
    expect((await sync(one, [{ run: id, state: 'running' }])).cancel).toEqual([id])
    expect(await finish(one, resultOf(id, one))).toEqual([1, 0, 0])
    const other = resultOf(id, one, { verdict: 'failed' })
    expect(await finish(second, other)).toEqual([0, 1, 0])
    expect((await read(one, id)).verdict).toBe('passed')
    expect((await sync(second, [{ run: id, state: 'running' }])).cancel).toEqual([id])
  })

  test('that restarted receives its runs again; cancelled ones have ended', async () => {
    const one = await scene()
    const [again, cancelled] = [await ask(one), await ask(one)]
    await sync(one)
    const said = [again, cancelled].map((run) => ({ run, state: 'running' as const }))
    await sync(one, said)
    const cancel = await one.client.call('POST', `${one.path}/${cancelled}/cancel`)
    expect(cancel.body.state).toBe('running')
    await handBackRuns(db(), { locationId: one.location.id, agentId: one.agentId })
    expect(await sync(one)).toMatchObject({ runs: [{ run: again }], cancel: [] })
    const ended = { state: 'finished', verdict: 'cancelled' }
    expect(await read(one, cancelled)).toMatchObject(ended)
  })

  test('cannot finish runs of other locations or monitors', async () => {
    const [one, other] = [await scene(), await scene()]
    const id = await ask(one)
    expect(await finish(other, resultOf(id, one))).toEqual([0, 0, 1])
    expect(await finish(one, resultOf(id, other))).toEqual([0, 0, 1])
    const twice = [resultOf(id, one), resultOf(id, one, { verdict: 'failed' })]
    expect(await finish(one, ...twice)).toEqual([1, 1, 0])
  })
})

describe('a run that no agent accepts', () => {
  const age = (id: string) =>
    db().query(`update runs set queued_at = queued_at - interval '361 s' where id = $1`, [id])

  test('is missed after 6 minutes, not before', async () => {
    const one = await scene()
    const [old, young] = [await ask(one), await ask(one)]
    await age(old)
    await stale()
    const missed = { state: 'finished', verdict: 'missed', missedReason: 'agent-lost' }
    expect(await read(one, old)).toMatchObject(missed)
    expect((await read(one, young)).state).toBe('queued')
    // It accepts a result that arrives later.
    expect(await finish(one, resultOf(old, one))).toEqual([1, 0, 0])
    expect(await read(one, old)).toMatchObject({ verdict: 'passed', missedReason: null })
    expect(await finish(one, resultOf(old, one))).toEqual([0, 1, 0])
  })

  test.each([
    ['where there never was an agent', 'delete from agents', 'no-agent', null, true],
    ['at once where live agents cannot run it', CANNOT, 'no-capable-agent', NEEDED, false],
  ])('is missed with that reason %s', async (_, change, missedReason, needed, isOld) => {
    const one = await scene()
    const id = await ask(one)
    await db().query(`${change} where location_id = $1`, [one.location.id])
    if (isOld) await age(id)
    await stale()
    expect(await read(one, id)).toMatchObject({ state: 'finished', missedReason, needed })
  })

  test('waits for a capable agent that has just gone, and for no other', async () => {
    const one = await scene()
    await db().query(`update agents set state = 'left' where id = $1`, [one.agentId])
    await addAgent(db(), one.location.id, { abilities: ['TCP'] })
    const id = await ask(one)
    await stale()
    expect(await read(one, id)).toMatchObject({ state: 'queued' })
    const gone = `update agents set last_seen_at = now() - interval '361 s' where id = $1`
    await db().query(gone, [one.agentId])
    await stale()
    expect(await read(one, id)).toMatchObject({ missedReason: 'no-capable-agent' })
  })

  test('of a deleted monitor is cancelled', async () => {
    const one = await scene()
    const id = await ask(one)
    await db().query('update monitors set deleted_at = now() where id = $1', [one.monitorId])
    expect((await sync(one)).runs).toEqual([])
    await stale()
    expect(await read(one, id)).toMatchObject({ verdict: 'cancelled' })
  })
})

test('finished runs are deleted after their retention', async () => {
  const one = await scene()
  const [old, young] = [await ask(one), await ask(one)]
  await finish(one, resultOf(old, one), resultOf(young, one))
  const age = `update runs set finished_at = finished_at - interval '31 days' where id = $1`
  await db().query(age, [old])
  await dropOld()
  const { body } = await one.client.call('GET', one.path)
  expect(body.entries).toMatchObject([{ id: young }])
})
