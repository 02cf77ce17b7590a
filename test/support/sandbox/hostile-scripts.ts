// Runs hostile scripts under agents of every kind, next to a well-behaved one that must not be affected.
import { existsSync } from 'node:fs'
import { mkdtemp, rm, chmod } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { SandboxOutcome } from '../../../src/sandbox/request.ts'
import {
  missingFor,
  processesWith,
  startStandIn,
  type StandInAnswer,
  type StandInRequest,
  type StandIn,
} from './stand-in.ts'
import { eventually } from '../eventually.ts'

/** A script and its expected end. */
export interface HostileScript {
  does: string
  request(standIn: StandIn): Omit<StandInRequest, 'id'>
  outcome: SandboxOutcome | SandboxOutcome[]
  also?(answer: StandInAnswer, standIn: StandIn): void
}

type Command = Pick<StandInRequest, 'command' | 'args'>

export const node = (script: string, ...args: string[]): Command => ({
  command: process.execPath,
  args: ['-e', script, ...args],
})
export const shell = (script: string, ...args: string[]): Command => ({
  command: '/bin/sh',
  args: ['-c', script, 'sh', ...args],
})

/** Runs each script as a test, under an agent that is root, and in a container as root and as nobody. */
export function testHostileScripts(scripts: readonly HostileScript[]): void {
  describe.each(['root', 'root of a container', 'nobody in a container'] as const)(
    'under an agent that is %s',
    (as) => {
      const missing = missingFor(as)
      let standIn: StandIn
      let root: string
      let beats = 0
      let neighbour: Promise<StandInAnswer>
      let isNeighbourDone = false

      beforeAll(async () => {
        if (missing !== undefined) return
        root = await mkdtemp(join(tmpdir(), 'vedette-sandbox-'))
        await chmod(root, 0o777)
        standIn = await startStandIn(root, as)
        const script = `setInterval(() => console.log('beat'), 50)`
        neighbour = standIn.run(
          { ...node(script), echo: true, limits: { wallMs: 600_000 } },
          () => beats++,
        )
        void neighbour.then(() => (isNeighbourDone = true))
        await beat()
      })
      afterAll(async () => {
        if (missing !== undefined) return
        await standIn.kill()
        await rm(root, { recursive: true, force: true })
      })

      async function beat(): Promise<void> {
        const before = beats
        await eventually(() => beats > before, { what: 'a beat of the neighbour' })
        expect(isNeighbourDone).toBe(false)
      }

      test.skipIf(missing !== undefined).for(scripts)('a script $does', async (one) => {
        const answer = await standIn.run(one.request(standIn))
        expect(answer.end).toMatchObject({ leftBehind: 0 })
        expect([one.outcome].flat()).toContain(answer.end.outcome)
        expect(answer.end.layers).toEqual({
          ownUser: as !== 'nobody in a container',
          landlock: expect.any(Number),
          network: true,
        })
        one.also?.(answer, standIn)
        expect(processesWith(answer.folder)).toEqual([])
        expect(existsSync(answer.folder)).toBe(false)
        await beat()
      })
    },
  )
}
