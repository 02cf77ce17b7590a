// `npm run bench [name…]`: figures side by side in one run. Ratios count; absolute figures depend on
// the machine and on who else is using it.
import { benchArtifacts } from './platform/artifacts.ts'
import { benchUptimeWithSuites } from './suites/beside-suites.ts'
import { benchBrowser } from './suites/browser.ts'
import { benchChecks } from './monitors/checks.ts'
import { benchCodeSoak } from './suites/code-soak.ts'
import { benchDns } from './monitors/dns.ts'
import { benchFleet } from './platform/fleet.ts'
import { benchGrpc } from './monitors/grpc.ts'
import { benchIcmpScale } from './monitors/icmp-scale.ts'
import { benchIcmp } from './monitors/icmp.ts'
import { benchImages } from './container/images.ts'
import { benchIncidents } from './platform/incidents.ts'
import { benchIngest } from './platform/ingest.ts'
import { benchPhases } from './phases.ts'
import { benchScale } from './scale.ts'
import { benchScrub } from './scrub.ts'
import { benchSsl } from './monitors/ssl.ts'
import { benchStart } from './start.ts'
import { benchSuites } from './suites/suites.ts'
import { benchTraceroute } from './monitors/traceroute.ts'

const BENCHES: Record<string, { what: string; run: () => Promise<void> }> = {
  artifacts: { what: 'a file of 150 MiB into a folder and into a bucket', run: benchArtifacts },
  'beside-suites': {
    what: '600 URL monitors every 10 s on an agent that runs two suites all the time',
    run: benchUptimeWithSuites,
  },
  browser: {
    what: 'browser and multistep monitors against their bare scripts, in turn, and their memory',
    run: benchBrowser,
  },
  checks: {
    what: 'checks per CPU-second against a bare loop and blackbox_exporter',
    run: benchChecks,
  },
  'code-soak': {
    what: 'leftovers of 500 suites, browser and multistep monitors',
    run: benchCodeSoak,
  },
  dns: {
    what: 'DNS checks per CPU-second against blackbox_exporter, and a long run',
    run: benchDns,
  },
  fleet: {
    what: '10,000 URL monitors every 10 s over two agents, platform and PostgreSQL for 120 s',
    run: benchFleet,
  },
  grpc: {
    what: 'gRPC checks per CPU-second against a bare loop and blackbox_exporter, and a long run',
    run: benchGrpc,
  },
  icmp: {
    what: 'echoes per CPU-second against blackbox_exporter, times against ping, and a long run',
    run: benchIcmp,
  },
  'icmp-scale': {
    what: '5,000 ICMP monitors every 10 s on one agent for 60 s',
    run: benchIcmpScale,
  },
  images: {
    what: 'the images of the agent: from docker run to ready, idle, and CPU and memory by kind of work',
    run: benchImages,
  },
  incidents: {
    what: 'pages of incidents against bare routes, on the embedded and on Debian’s PostgreSQL',
    run: benchIncidents,
  },
  ingest: {
    what: 'results recorded per CPU-second of the platform and of its database',
    run: benchIngest,
  },
  phases: { what: 'phases against those of curl -w, median of 50', run: benchPhases },
  scale: { what: '10,000 URL monitors every 10 s on one agent for 60 s', run: benchScale },
  scrub: {
    what: 'scrubbing with many and long secrets: set-up, bytes per second, delay of the event loop',
    run: benchScrub,
  },
  ssl: {
    what: 'SSL checks per CPU-second against a bare handshake and blackbox_exporter, and 100,000 in a row',
    run: benchSsl,
  },
  start: { what: 'time from start to ready, and idle memory', run: benchStart },
  suites: {
    what: 'a suite of ten tests on each engine, against bare Playwright in turn',
    run: benchSuites,
  },
  traceroute: {
    what: 'traces per CPU-second through three routers against traceroute(8), and leftovers of 100,000',
    run: benchTraceroute,
  },
}

const asked = process.argv.slice(2)
const unknown = asked.filter((name) => !(name in BENCHES))
if (unknown.length > 0) {
  process.stderr.write(
    `no bench ${unknown.join(', ')}; there are ${Object.keys(BENCHES).join(', ')}\n`,
  )
  process.exit(2)
}
for (const [name, bench] of Object.entries(BENCHES)) {
  if (asked.length > 0 && !asked.includes(name)) continue
  process.stdout.write(`\n## ${name}: ${bench.what}\n\n`)
  await bench.run()
}
