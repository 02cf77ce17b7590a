// Runs on demand for tests: a monitor with an agent, the agent's messages, and a client.
import { afterAll, beforeAll, expect } from 'vitest'
import type { Monitor } from '../../../../src/contract/monitor.ts'
import { createRuns, type Runs } from '../../../../src/platform/runs/routes.ts'
import { handOutRuns } from '../../../../src/platform/runs/hand-out.ts'
import { listen } from '../../../../src/database/listen.ts'
import { finishRuns } from '../../../../src/platform/runs/queries/runs.ts'
import type { useDatabase } from '../../database/database.ts'
import { addAgent, addLocation, addMonitor, type LocationRow } from '../monitor-rows.ts'
import { addClient, startPublicApi, type ApiClient, type PublicApi } from '../public-api.ts'

/** A monitor in a location with an agent, and the client that requests its runs. */
export interface RunScene {
  client: ApiClient
  location: LocationRow
  monitorId: string
  agentId: string
  path: string
}

/** Starts the API with the operations of runs; for a test file or a `describe`. */
export function useRuns(database: ReturnType<typeof useDatabase>) {
  let runs: Runs
  let api: PublicApi
  let listening: Promise<void>
  const notified: string[] = []
  const waiting = new Set<() => void>()
  const stop = new AbortController()

  beforeAll(async () => {
    const { database: db, url } = database()
    runs = createRuns({
      database: db,
      retentionMs: 86_400_000,
      capable: (needs, abilities) => needs.every((one) => abilities.includes(one)),
      neededText: (needs) => needs.join(', '),
    })
    const ready = Promise.withResolvers<void>()
    const notifications = listen({
      address: { url },
      channel: 'vedette_agents',
      signal: stop.signal,
      onNews(locationId) {
        if (locationId === undefined) ready.resolve()
        else notified.push(locationId)
        for (const one of waiting) one()
      },
    })
    listening = Promise.all([runs.listen({ url }, stop.signal), notifications]).then(
      () => undefined,
    )
    await ready.promise
    api = await startPublicApi(db, {
      operations: runs.operations,
      defaultLimit: { limit: 1e6, windowS: 60 },
    })
  })
  afterAll(async () => {
    stop.abort()
    await listening
    await api.close()
  })

  const db = () => database().database
  /** Resolves when agents of the location were notified. */
  const whenNotified = (locationId: string) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (!notified.includes(locationId)) return
        waiting.delete(look)
        resolve()
      }
      waiting.add(look)
      look()
    })

  const scene = async (options: { activated?: boolean } = {}): Promise<RunScene> => {
    const client = await addClient(api, db())
    const location = await addLocation(db(), client.accountId)
    const monitorId = await addMonitor(db(), client.accountId, {
      locations: [location],
      effective: JSON.stringify({ name: 'the shop' }),
      ...options,
    })
    const agentId = await addAgent(db(), location.id)
    return { client, location, monitorId, agentId, path: `/v1/checks/${monitorId}/runs` }
  }
  const ask = async ({ client, path }: RunScene) => {
    const { status, body } = await client.call('POST', path, { body: {} })
    expect(status).toBe(201)
    return body.runs[0].id as string
  }
  /** The runs that the agent receives when it syncs. */
  const sync = (
    { location, agentId }: RunScene,
    said: { run: string; state: 'waiting' | 'running' }[] = [],
    more: Partial<Parameters<typeof handOutRuns>[1]> = {},
  ) =>
    handOutRuns(db(), {
      locationId: location.id,
      agentId,
      said,
      leaving: false,
      ownerOf: () => agentId,
      open: (effective) => JSON.parse(effective) as Monitor,
      ...more,
    })
  const resultOf = (run: string, { monitorId }: RunScene, more: object = {}) => ({
    monitorId,
    slot: 1_760_000_000_000,
    onDemand: run,
    verdict: 'passed' as const,
    startedAt: 1_760_000_000_000.25,
    durationMs: 12.5,
    responseTimeMs: 11,
    attempts: 1,
    ...more,
  })
  const finish = ({ location, agentId }: RunScene, result: ReturnType<typeof resultOf>) =>
    finishRuns(db(), { locationId: location.id, agentId }, [result])
  const stale = () => runs.backgroundJobs[0]?.run(stop.signal)
  const dropOld = () => runs.backgroundJobs[1]?.run(stop.signal)
  return {
    api: () => api,
    db,
    whenNotified,
    /** Forgets the notifications so far. */
    forgetNotified: () => (notified.length = 0),
    scene,
    ask,
    sync,
    resultOf,
    finish,
    stale,
    dropOld,
  }
}
