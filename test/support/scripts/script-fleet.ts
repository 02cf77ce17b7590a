// An installation for user code: a platform, a recording proxy, and an agent with a runtime and an engine.
import { createHash } from 'node:crypto'
import { chmodSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { packBundle } from '../../../src/client/bundle-pack.ts'
import { type DefinedType, definitionOf } from '../../../src/monitors/definitions.ts'
import type { RunDetail } from '../../../src/contract/api/run.ts'
import { toolFolder } from '../../../src/scripts/toolchains.ts'
import type { AgentProcess } from '../agent/agent-process.ts'
import { eventually } from '../eventually.ts'
import { Fleet, type FleetLocation } from '../faults/fleet.ts'
import { type FaultyProxy, startFaultyProxy } from '../agent/delivery/faulty-proxy.ts'
import { copyPlaywright, ownNode, projectFolder, runtimeFolder } from './script-host.ts'
import { temporaryFolder } from '../temporary-folder.ts'

/** Toolchains with runtime 2026.04 and engine node@24, both made of this project's own parts. */
export function scriptTools(): string {
  const tools = runtimeFolder()
  const modules = join(ownNode(tools, 'engine', 'node@24'), 'modules')
  copyPlaywright(modules)
  mkdirSync(join(modules, '.bin'))
  symlinkSync('../@playwright/test/cli.js', join(modules, '.bin/playwright'))
  chmodSync(join(modules, '@playwright/test/cli.js'), 0o755)
  return tools
}

/** An `installCommand` that puts Playwright into a project, from those toolchains. */
export function installPlaywright(tools: string): string {
  const modules = join(toolFolder(tools, 'engine', 'node@24'), 'modules')
  return `mkdir -p node_modules && cp -r ${modules}/. node_modules/`
}

/** Users of this test only: runs of other agents on this machine have others. */
const FIRST_USER_ID = 100_000 + (process.pid % 10_000) * 256

/** The installation. */
export class ScriptFleet {
  declare readonly fleet: Fleet
  declare readonly proxy: FaultyProxy
  declare readonly agent: AgentProcess
  declare readonly location: FleetLocation
  declare readonly tools: string
  declare readonly dataFolder: string

  private constructor(
    parts: Pick<ScriptFleet, 'fleet' | 'proxy' | 'agent' | 'location' | 'tools' | 'dataFolder'>,
  ) {
    Object.assign(this, parts)
  }

  /** Starts all of it, with a proxy that may record bodies; resolves when the agent is live. */
  static async start({ env = {}, recordsBodies = false } = {}): Promise<ScriptFleet> {
    const fleet = await Fleet.create()
    await fleet.startPlatform()
    const proxy = await startFaultyProxy(() => fleet.platforms[0]?.url ?? '', { recordsBodies })
    const location = await fleet.createLocation('cellar')
    const tools = scriptTools()
    const dataFolder = join(temporaryFolder(), 'data')
    const own = { DATA_DIR: dataFolder, TOOLS_DIR: tools, SCRIPT_USER_ID: String(FIRST_USER_ID) }
    const place = { location, name: 'one', platformUrl: proxy.url }
    const agent = fleet.startAgent({ ...place, env: { ...own, ...env } })
    await fleet.agents(1)
    return new ScriptFleet({ fleet, proxy, agent, location, tools, dataFolder })
  }

  /** Uploads the bundle of a folder to the platform; returns its `codeBundlePath`. */
  async bundle(files: Record<string, string | Buffer>): Promise<string> {
    const path = join(temporaryFolder(), 'bundle.tar.gz')
    await packBundle(projectFolder(files), path, { bytesMax: 100_000_000, filesMax: 1000 })
    const bytes = readFileSync(path)
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    const { VEDETTE_API_KEY = '', ACCOUNT_ID = '' } = this.fleet.commandSettings()
    const answer = await fetch(`${this.fleet.platforms[0]?.url}/v1/code-bundles/${sha256}`, {
      method: 'PUT',
      headers: {
        authorization: `Bearer ${VEDETTE_API_KEY}`,
        'x-service-account': ACCOUNT_ID,
        'content-type': 'application/gzip',
      },
      body: bytes,
    })
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
    return `bundle:${sha256}`
  }

  /** Makes a monitor that runs only on demand; returns its id. */
  async monitor(type: DefinedType, fields: Record<string, unknown>): Promise<string> {
    const path = `/v1/checks/${definitionOf(type).path}`
    const body = { activated: false, frequency: 10, privateLocations: ['cellar'], ...fields }
    const whole = { name: `a ${type} monitor`, ...body }
    return (await this.fleet.api<{ id: string }>('POST', path, whole)).id
  }

  /** Makes a suite of a project, whose installation adds Playwright. */
  async suite(
    files: Record<string, string | Buffer>,
    fields: Record<string, unknown> = {},
  ): Promise<string> {
    return this.monitor('PLAYWRIGHT', {
      codeBundlePath: await this.bundle(files),
      engine: 'node',
      engineVersion: '24',
      installCommand: installPlaywright(this.tools),
      ...fields,
    })
  }

  /** Requests a run; returns its id. */
  async ask(monitorId: string): Promise<string> {
    const path = `/v1/checks/${monitorId}/runs`
    const { runs } = await this.fleet.api<{ runs: { id: string }[] }>('POST', path, {})
    return runs[0]?.id ?? ''
  }

  /** The current state of a run. */
  run(monitorId: string, runId: string): Promise<RunDetail> {
    return this.fleet.api<RunDetail>('GET', `/v1/checks/${monitorId}/runs/${runId}`)
  }

  /** A run when it is finished. */
  finished(monitorId: string, runId: string, ms = 120_000): Promise<RunDetail> {
    return eventually(
      async () => {
        const run = await this.run(monitorId, runId)
        return run.state === 'finished' && run
      },
      { ms, what: 'the end of the run' },
    )
  }

  /** Command lines of the processes of runs. */
  alive(): string[] {
    return readdirSync('/proc').flatMap((name) => {
      if (!/^\d+$/.test(name)) return []
      try {
        if (!this.#isOfRun(Number(name))) return []
        const state = readFileSync(`/proc/${name}/stat`, 'latin1').split(') ').at(-1)?.[0]
        if (state === 'Z' || state === 'X') return []
        return [readFileSync(`/proc/${name}/cmdline`, 'latin1').replaceAll('\0', ' ')]
      } catch {
        return []
      }
    })
  }

  #isOfRun(pid: number): boolean {
    if (process.getuid?.() === 0) {
      // Not the owner of the folder: for an unreadable process that is root.
      const uid = Number(/^Uid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1])
      return uid >= FIRST_USER_ID && uid < FIRST_USER_ID + 256
    }
    return readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`HOME=${this.dataFolder}/`)
  }

  /** Ends all of it. */
  async close(): Promise<void> {
    await this.proxy.close()
    await this.fleet.close()
  }
}
