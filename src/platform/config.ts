// The platform's settings: one table of environment variables, one reader, all problems at once.
import { decoded, urlSecrets } from '../contract/definition-secrets.ts'
import {
  type Environment,
  type EnvironmentProblem,
  type ReadText,
  readEnvironment,
  type Values,
  type VariableText,
  variableTexts,
} from '../process/env.ts'
import {
  anyText,
  FAULT_REPORT_VARIABLES,
  proxyVariables,
  leastLevel,
  urlSetting,
  wholeNumber,
  nameList,
} from '../process/settings.ts'
import { keyProblem } from './secrets/api-key.ts'
import type { BucketOptions } from './artifacts/bucket.ts'
import { createClientAddress } from './http/client-address.ts'
import { SECRETS_KEY_CHARACTERS_MIN } from './secrets/secrets-key.ts'

const DAY_MS = 86_400_000
const GUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export const VARIABLE_TABLE = {
  DATABASE_URL: urlSetting({
    meaning: 'PostgreSQL 15 to 18; without it an embedded one runs in DATA_DIR',
    shownDefault: 'embedded',
    secret: true,
    protocols: ['postgresql:', 'postgres:'],
    example: 'postgresql://user:password@host:5432/vedette',
  }),
  DATABASE_CONNECTIONS: wholeNumber({
    meaning: 'Connections to PostgreSQL that one process opens at most',
    otherwise: 16,
    min: 2,
    max: 500,
  }),
  DATABASE_WAIT_SECONDS: wholeNumber({
    meaning: 'How long a start waits for a database that does not answer yet',
    otherwise: 300,
    min: 0,
    max: 86_400,
    unit: 's',
  }),
  DATA_DIR: anyText({
    meaning: 'Folder for the embedded PostgreSQL, credentials.json, secrets.key and artifacts',
    shownDefault: './data',
  }),
  SECRETS_KEY: anyText({
    meaning: 'Key under which secrets in the database are encrypted; the same for every process',
    shownDefault: 'DATA_DIR/secrets.key',
    secret: true,
    problem: (key) =>
      key.length >= SECRETS_KEY_CHARACTERS_MIN
        ? undefined
        : {
            allowed: `at least ${SECRETS_KEY_CHARACTERS_MIN} characters`,
            fix: 'make one with `openssl rand -hex 32`',
          },
  }),
  PORT: wholeNumber({
    meaning: 'Port of the API, readiness, liveness and health; 0 uses any free port',
    otherwise: 3000,
    min: 0,
    max: 65_535,
  }),
  HOST: anyText({ meaning: 'Address to listen on', shownDefault: 'all' }),
  METRICS_PORT: wholeNumber({
    meaning: 'Port of /metrics, without a key; 0 uses any free port; not set: no metrics',
    otherwise: undefined,
    min: 0,
    max: 65_535,
  }),
  PUBLIC_URL: urlSetting({
    meaning: 'Where clients reach the platform, for the API document',
    isShownToClients: true,
    protocols: ['https:', 'http:'],
    example: 'https://monitoring.example.com',
  }),
  TRUSTED_PROXIES: nameList({
    meaning: 'Addresses or networks whose X-Forwarded-For is trusted',
    problem: proxyProblem,
  }),
  RATE_LIMIT: wholeNumber({
    meaning: 'Requests that a key may make in 60 s',
    otherwise: 600,
    min: 1,
    max: 10_000_000,
  }),
  ACCOUNT_ID: anyText({
    meaning: 'Id of the account that is created at the first start',
    shownDefault: 'a new one',
    problem: (id) =>
      GUID.test(id) ? undefined : { allowed: 'a UUID', fix: 'make one with `uuidgen`' },
  }),
  ADMIN_API_KEY: anyText({
    meaning: 'Admin key of that account',
    shownDefault: 'a new one',
    secret: true,
    problem: keyProblem,
  }),
  RESULTS_RETENTION_DAYS: wholeNumber({
    meaning: 'How long results are kept, one row for each slot',
    otherwise: 30,
    min: 1,
    max: 3660,
    unit: 'days',
  }),
  ACCOUNTING_GRACE_SECONDS: wholeNumber({
    meaning: 'How long agents have to report a slot before it counts as missed',
    otherwise: 120,
    min: 5,
    max: 86_400,
    unit: 's',
  }),
  ROLLUPS_RETENTION_DAYS: wholeNumber({
    meaning: 'How long the hourly figures behind analytics are kept',
    otherwise: 400,
    min: 1,
    max: 3660,
    unit: 'days',
  }),
  ARTIFACTS_RETENTION_DAYS: wholeNumber({
    meaning: 'How long files of results are kept',
    otherwise: 7,
    min: 1,
    max: 3650,
    unit: 'days',
  }),
  ARTIFACTS_S3_URL: urlSetting({
    meaning: 'S3-compatible service that keeps files of results; without it DATA_DIR does',
    protocols: ['https:', 'http:'],
    example: 'https://s3.eu-central-1.amazonaws.com',
  }),
  ARTIFACTS_S3_BUCKET: anyText({
    meaning: 'Its bucket, which has to exist; addressed by path',
    problem: bucketProblem,
  }),
  ARTIFACTS_S3_REGION: anyText({ meaning: 'Its region', shownDefault: 'us-east-1' }),
  ARTIFACTS_S3_ACCESS_KEY_ID: anyText({ meaning: 'Id of the access key there' }),
  ARTIFACTS_S3_SECRET_ACCESS_KEY: anyText({ meaning: 'The access key itself', secret: true }),
  DRAIN_SECONDS: wholeNumber({
    meaning: 'Time for requests in flight to end after SIGTERM',
    otherwise: 25,
    min: 0,
    max: 3600,
    unit: 's',
  }),
  DRAIN_DELAY_SECONDS: wholeNumber({
    meaning: 'Time after SIGTERM in which requests are still taken, for load balancers to notice',
    otherwise: 0,
    min: 0,
    max: 300,
    unit: 's',
  }),
  LOG_LEVEL: leastLevel(),
  ...FAULT_REPORT_VARIABLES,
  ...proxyVariables('Proxy to SENTRY_DSN'),
} as const

function proxyProblem(text: string): { allowed: string; fix: string } | undefined {
  try {
    createClientAddress([text])
    return undefined
  } catch {
    return { allowed: 'addresses or networks', fix: 'write them like 10.0.0.0/8, 192.0.2.7' }
  }
}

function bucketProblem(text: string): { allowed: string; fix: string } | undefined {
  if (/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(text)) return undefined
  return { allowed: 'the name of a bucket', fix: '3 to 63 of a-z, 0-9, dots and hyphens' }
}

/** The table for help and documentation, in its order. */
export const VARIABLES: readonly VariableText[] = variableTexts(VARIABLE_TABLE)

/** The platform's settings, checked. */
export type PlatformConfig = ReturnType<typeof configOf>

export interface PlatformConfigReading {
  config: PlatformConfig
  /** Not empty: do not start. */
  problems: EnvironmentProblem[]
  /** Values that no log line may show. */
  secrets: string[]
}

/** Reads and checks all settings of the platform. */
export function readPlatformConfig(env: Environment, readText?: ReadText): PlatformConfigReading {
  const { values, problems } = readEnvironment(VARIABLE_TABLE, env, readText)
  const config = configOf(values, bucketOf(values, problems))
  return { config, problems, secrets: secretsOf(config) }
}

type PlatformValues = Values<typeof VARIABLE_TABLE>

/** Settings by their names in the code; those without a default may be undefined. */
function configOf(values: PlatformValues, artifactBucket: BucketOptions | undefined) {
  return {
    databaseUrl: values.DATABASE_URL,
    connectionsMax: values.DATABASE_CONNECTIONS,
    databaseWaitMs: values.DATABASE_WAIT_SECONDS * 1000,
    dataDir: values.DATA_DIR ?? './data',
    secretsKey: values.SECRETS_KEY,
    port: values.PORT,
    hostname: values.HOST,
    metricsPort: values.METRICS_PORT,
    publicUrl: values.PUBLIC_URL,
    trustedProxies: values.TRUSTED_PROXIES,
    requestsPerMinute: values.RATE_LIMIT,
    accountId: values.ACCOUNT_ID?.toLowerCase(),
    adminApiKey: values.ADMIN_API_KEY,
    resultsMs: values.RESULTS_RETENTION_DAYS * DAY_MS,
    accountingGraceMs: values.ACCOUNTING_GRACE_SECONDS * 1000,
    rollupsMs: values.ROLLUPS_RETENTION_DAYS * DAY_MS,
    artifactsRetentionMs: values.ARTIFACTS_RETENTION_DAYS * DAY_MS,
    artifactBucket,
    drainMs: values.DRAIN_SECONDS * 1000,
    drainDelayMs: values.DRAIN_DELAY_SECONDS * 1000,
    logLevel: values.LOG_LEVEL,
    externalObservability: values.EXTERNAL_OBSERVABILITY,
    sentryDsn: values.SENTRY_DSN,
    /** To `sentryDsn`. */
    proxyUrl: values.HTTPS_PROXY ?? values.HTTP_PROXY,
    noProxy: values.NO_PROXY,
  }
}

const BUCKET_VARIABLES = [
  'ARTIFACTS_S3_URL',
  'ARTIFACTS_S3_BUCKET',
  'ARTIFACTS_S3_ACCESS_KEY_ID',
  'ARTIFACTS_S3_SECRET_ACCESS_KEY',
] as const

/** The configured bucket; adds a problem for each missing setting. */
function bucketOf(
  values: PlatformValues,
  problems: EnvironmentProblem[],
): BucketOptions | undefined {
  const given = BUCKET_VARIABLES.find((variable) => values[variable] !== undefined)
  if (given === undefined) return undefined
  for (const variable of BUCKET_VARIABLES) {
    // A setting that is given and no good is complained of already.
    const isKnown = problems.some((one) => one.variable === variable)
    if (values[variable] !== undefined || isKnown) continue
    problems.push({ variable, message: `${variable} is not set, and ${given} is: set both` })
  }
  const texts = BUCKET_VARIABLES.map((variable) => values[variable])
  const [url = '', bucket = '', accessKeyId = '', secretAccessKey = ''] = texts
  const region = values.ARTIFACTS_S3_REGION ?? 'us-east-1'
  return { url, bucket, region, accessKeyId, secretAccessKey }
}

function secretsOf(config: PlatformConfig): string[] {
  const { databaseUrl, adminApiKey, secretsKey, artifactBucket, sentryDsn, proxyUrl } = config
  const [database, dsn] = [databaseUrl, sentryDsn].map((one) => URL.parse(one ?? ''))
  const passwords = [database?.password ?? '', dsn?.password ?? '']
  const given = [adminApiKey, secretsKey, artifactBucket?.secretAccessKey, dsn?.username]
  const all = [...given, ...passwords, ...passwords.map(decoded), ...urlSecrets(proxyUrl ?? '')]
  return all.filter((one): one is string => one !== undefined && one !== '')
}
