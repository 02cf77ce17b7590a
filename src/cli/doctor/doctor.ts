// Creates the probes of `vedette doctor`, runs them and prints the findings.
import { counted } from '../../contract/schema/amounts.ts'
import { type AgentConfig, type ConfigReading, readAgentConfig } from '../../agent/config.ts'
import { countedProblems } from '../../agent/monitors-file/problems.ts'
import { type ReadFile, readMonitorsFile } from '../../agent/monitors-file/file.ts'
import { createScrubber } from '../../agent/redaction/scrub.ts'
import type { Monitor } from '../../contract/monitor.ts'
import { VERSION } from '../../contract/versions.ts'
import { EXIT } from '../../process/exit-codes.ts'
import { mayColour } from '../../process/log.ts'
import { MONITOR_TYPES } from '../../monitors/registry.ts'
import { openToolchains } from '../../scripts/toolchains.ts'
import { probeBrowser, probeSandbox } from './sandbox.ts'
import { probeDisk } from './disk.ts'
import { type Finding, type Probe, runProbes } from './finding.ts'
import { probeHealthPort } from './health-port.ts'
import { probeIcmp, probeTraceroute } from './packets.ts'
import { probePlatform } from './platform.ts'
import { probeNameServers } from './name-servers.ts'
import { doctorJson, doctorTable, isSound, placeOf } from './report.ts'
import { probeTools } from './tools.ts'
import { probeForUse } from './usage.ts'
import { onInterrupt } from '../interruption.ts'
import { refuse } from '../settings.ts'

const { env, stdout } = process

/** For all probes, which run concurrently. */
const DEADLINE_MS = 30_000

/** Runs `vedette doctor`; resolves with the exit code. */
export async function runDoctor({ json }: { json: boolean }): Promise<number> {
  const reading = readAgentConfig({ env, stdout })
  const isRefused = reading.problems.length > 0
  // The other probes still run, with the valid settings.
  if (isRefused) refuse(reading.problems)
  waitShortlyForNames()
  using interruption = onInterrupt()
  const found = await runProbes(await probesOf(reading), DEADLINE_MS, interruption.signal)
  if (interruption.signal.aborted) return interruption.codeOr(EXIT.failed)
  const { config, secrets } = reading
  const scrubber = createScrubber({ secrets, headers: config.scrubHeaders })
  const findings = found.map((one) => scrubber.value(one))
  const userId = process.getuid?.()
  const head = { version: VERSION, image: config.image, userId, place: placeOf(env) }
  stdout.write(
    json ? doctorJson(head, findings) : doctorTable(head, findings, mayColour(stdout, env)),
  )
  if (isRefused) return EXIT.configuration
  return isSound(findings) ? EXIT.ok : EXIT.failed
}

/** Shortens lookups of the system: they cannot be aborted, and the process does not exit before they end. */
function waitShortlyForNames(): void {
  process.env['RES_OPTIONS'] = `${env['RES_OPTIONS'] ?? ''} timeout:2 attempts:1`.trim()
}

async function probesOf(reading: ConfigReading): Promise<Probe[]> {
  const { config } = reading
  const tools = openToolchains(config.toolsDir, config.image)
  const [engines, runtimes] = await Promise.all([
    tools.installed('engine'),
    tools.installed('runtime'),
  ])
  const runsCode = engines.length + runtimes.length > 0
  const file = readOnce(config)
  const monitorsOf = async () => {
    const read = await file()
    return read?.ok === true ? read.file.monitors : undefined
  }
  const probes: Probe[] = [
    { id: 'settings', run: () => probeSettings(reading, file) },
    { id: 'platform', run: (signal) => probePlatform(config, signal) },
    {
      id: 'dns',
      run: (signal) =>
        probeNameServers({
          config,
          signal,
          monitoredHosts: async () => hostsOf(await monitorsOf()),
        }),
    },
    { id: 'disk', run: () => probeDisk(config) },
    { id: 'health-port', run: (signal) => probeHealthPort(config, signal) },
    { id: 'icmp', run: (signal) => probeIcmp(signal) },
    { id: 'traceroute', run: (signal) => probeTraceroute(signal) },
    { id: 'sandbox', run: (signal) => probeSandbox({ config, runsCode, signal }) },
    { id: 'browser', run: (signal) => probeBrowser({ config, runsCode, signal }) },
    { id: 'engines', run: (signal) => probeTools('engine', tools, signal) },
    { id: 'runtimes', run: (signal) => probeTools('runtime', tools, signal) },
  ]
  return probes.map((probe) => probeForUse(probe, monitorsOf))
}

type ReadOnce = () => Promise<ReadFile | undefined>

/** Reads the monitors file at the first call; undefined without one. */
function readOnce({ monitorsFile }: AgentConfig): ReadOnce {
  let read: Promise<ReadFile> | undefined
  return async () => {
    if (monitorsFile === undefined) return undefined
    return (read ??= readMonitorsFile(monitorsFile, env, MONITOR_TYPES))
  }
}

/** Hosts and URLs of monitors. */
function hostsOf(monitors: readonly Monitor[] = []): string[] {
  return monitors.flatMap(({ request }) => {
    const { url, hostname, sslConfig } = (request ?? {}) as Record<string, unknown>
    const hosts = [url, hostname, (sslConfig as { hostname?: unknown } | undefined)?.hostname]
    return hosts.filter((one) => typeof one === 'string')
  })
}

async function probeSettings(
  { config, problems, warnings }: ConfigReading,
  file: ReadOnce,
): Promise<Finding[]> {
  const { monitorsFile, platformUrl } = config
  const [first] = problems
  if (first !== undefined) {
    const says = problems.map(({ message }) => message).join('; ')
    const fix = `set ${first.variable}=…`
    return [{ id: 'settings', standing: 'broken', says, fix }]
  }
  const messages = warnings.map(({ message }) => `; ${message}`).join('')
  const standing = warnings.length === 0 ? 'works' : 'warning'
  const read = await file()
  if (read === undefined) {
    const says = `monitors of the platform ${new URL(platformUrl ?? '').origin}${messages}`
    return [{ id: 'settings', standing, says }]
  }
  if (!read.ok) {
    const says = `${countedProblems(read.problems)} in the monitors file ${monitorsFile}`
    const fix = `vedette validate ${monitorsFile}  (names each)`
    return [{ id: 'settings', standing: 'broken', says, fix }]
  }
  const monitors = counted(read.file.monitors.length, 'monitor')
  return [{ id: 'settings', standing, says: `${monitors} of the file ${monitorsFile}${messages}` }]
}
