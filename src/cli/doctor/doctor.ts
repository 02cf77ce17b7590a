// Creates the probes of `vedette doctor`, runs them and prints the findings.
import { counted } from '../../contract/schema/amounts.ts'
import { type AgentConfig, type ConfigReading, readAgentConfig } from '../../agent/config.ts'
import { countedProblems } from '../../agent/monitors-file/problems.ts'
import { readMonitorsFile } from '../../agent/monitors-file/file.ts'
import { createScrubber } from '../../agent/redaction/scrub.ts'
import { VERSION } from '../../contract/versions.ts'
import { EXIT_CONFIGURATION } from '../../process/command-line.ts'
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
  if (interruption.signal.aborted) return 130
  const { config, secrets } = reading
  const scrubber = createScrubber({ secrets, headers: config.scrubHeaders })
  const findings = found.map((one) => scrubber.value(one))
  const userId = process.getuid?.()
  const head = { version: VERSION, image: config.image, userId, place: placeOf(env) }
  stdout.write(
    json ? doctorJson(head, findings) : doctorTable(head, findings, mayColour(stdout, env)),
  )
  if (isRefused) return EXIT_CONFIGURATION
  return isSound(findings) ? 0 : 1
}

/** Shortens lookups of the system: they cannot be aborted, and the process does not exit before they end. */
function waitShortlyForNames(): void {
  process.env['RES_OPTIONS'] = `${env['RES_OPTIONS'] ?? ''} timeout:2 attempts:1`.trim()
}

async function probesOf(reading: ConfigReading): Promise<Probe[]> {
  const { config } = reading
  const tools = openToolchains(config.toolsDir)
  const [engines, runtimes] = await Promise.all([
    tools.installed('engine'),
    tools.installed('runtime'),
  ])
  const runsCode = engines.length + runtimes.length > 0
  return [
    { id: 'settings', run: () => probeSettings(reading) },
    { id: 'platform', run: (signal) => probePlatform(config, signal) },
    {
      id: 'dns',
      run: (signal) => probeNameServers({ config, signal, monitoredHosts: () => hostsOf(config) }),
    },
    { id: 'disk', run: () => probeDisk(config) },
    { id: 'health-port', run: (signal) => probeHealthPort(config, signal) },
    { id: 'icmp', run: (signal) => probeIcmp(signal) },
    { id: 'traceroute', run: (signal) => probeTraceroute(signal) },
    { id: 'sandbox', run: (signal) => probeSandbox({ config, runsCode, signal }) },
    { id: 'browser', run: (signal) => probeBrowser({ config, runsCode, signal }) },
    { id: 'engines', run: (signal) => probeTools('engine', tools, config, signal) },
    { id: 'runtimes', run: (signal) => probeTools('runtime', tools, config, signal) },
  ]
}

/** Hosts and URLs of the monitors file; none without a valid file. */
async function hostsOf({ monitorsFile }: AgentConfig): Promise<string[]> {
  if (monitorsFile === undefined) return []
  const read = await readMonitorsFile(monitorsFile, env, MONITOR_TYPES)
  if (!read.ok) return []
  return read.file.monitors.flatMap(({ request }) => {
    const { url, hostname, sslConfig } = (request ?? {}) as Record<string, unknown>
    const hosts = [url, hostname, (sslConfig as { hostname?: unknown } | undefined)?.hostname]
    return hosts.filter((one) => typeof one === 'string')
  })
}

async function probeSettings({ config, problems, warnings }: ConfigReading): Promise<Finding[]> {
  const { monitorsFile, platformUrl } = config
  const [first] = problems
  if (first !== undefined) {
    const says = problems.map(({ message }) => message).join('; ')
    const fix = `set ${first.variable}=…`
    return [{ id: 'settings', standing: 'broken', says, fix }]
  }
  const messages = warnings.map(({ message }) => `; ${message}`).join('')
  const standing = warnings.length === 0 ? 'works' : 'warning'
  if (monitorsFile === undefined) {
    const says = `monitors of the platform ${new URL(platformUrl ?? '').origin}${messages}`
    return [{ id: 'settings', standing, says }]
  }
  const read = await readMonitorsFile(monitorsFile, env, MONITOR_TYPES)
  if (!read.ok) {
    const says = `${countedProblems(read.problems)} in the monitors file ${monitorsFile}`
    const fix = `vedette validate ${monitorsFile}  (names each)`
    return [{ id: 'settings', standing: 'broken', says, fix }]
  }
  const monitors = counted(read.file.monitors.length, 'monitor')
  return [{ id: 'settings', standing, says: `${monitors} of the file ${monitorsFile}${messages}` }]
}
