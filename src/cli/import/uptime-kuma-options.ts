// Options of Uptime Kuma's monitors: what becomes of each.
import * as z from 'zod'
import { isFields, type Fields } from '../../agent/monitors-file/shorthands.ts'
import { jsonOf } from '../../contract/exact-json.ts'
import {
  addHeaders,
  type Around,
  formed,
  leftOut,
  never,
  only,
  PAIRS,
  type Option,
  type Options,
  refuse,
  silent,
  TEXT,
  toRequest,
  withoutSecrets,
} from './drafts.ts'
import { jsonPathOf, setTimeoutMs, textOf } from './values.ts'

const ALERTS = 'alerts are set up on the platform; see `vedette help alerts`'

/** Says of an option which types it is for; of others the backup holds its default. */
const forTypes =
  (types: readonly string[], option: Option): Option =>
  (value, around) => {
    if (types.includes(String(around.draft.given?.['type']))) option(value, around)
  }

const WEB = ['http', 'keyword', 'json-query']
const WEB_OR_SOCKET = [...WEB, 'websocket-upgrade']

const FORMATS: Readonly<Record<string, Fields>> = {
  json: { bodyType: 'JSON' },
  form: { bodyType: 'FORM' },
  xml: { bodyType: 'RAW' },
}

const TAGS = z.array(
  z.looseObject({
    name: z.string(),
    value: z
      .string()
      .nullish()
      .transform((one) => one ?? ''),
  }),
)

/** What changes the check. */
const CHECKED: Options = {
  active: (value: boolean | number, { draft }) => {
    if (value === false || value === 0) draft.fields['activated'] = false
  },
  description: (value: string, { draft }) => {
    if (value !== '') draft.fields['description'] = value
  },
  tags: formed(TAGS, (tags, { draft }) => {
    const names = tags.map(({ name, value }) => (value === '' ? name : `${name}:${value}`))
    if (names.length > 0)
      draft.fields['tags'] = [...((draft.fields['tags'] ?? []) as string[]), ...names]
  }),
  upsideDown: only([false, 0], 'a monitor cannot require that its target fails'),
  proxyId: never('a proxy is set for all monitors: write proxyUrl at the top of the file'),
  conditions: only([[]], 'write them as assertions on TEXT_ANSWER'),
  method: forTypes(WEB, toRequest('method')),
  ignoreTls: forTypes([...WEB_OR_SOCKET, 'port', 'smtp'], (value: boolean | number, { draft }) => {
    if (value === true || value === 1) draft.request['skipSSL'] = true
  }),
  maxredirects: forTypes(WEB, (value: number, { draft, all, path }) => {
    if (value === 0) draft.request['followRedirects'] = false
    else if (value !== 10) all.notes.push({ path, message: 'at most 10 redirects are followed' })
  }),
  accepted_statuscodes: silent,
  headers: forTypes(
    WEB_OR_SOCKET,
    formed(z.union([TEXT, PAIRS]), (value, around) => {
      const given = typeof value === 'string' ? objectOf(value) : value
      if (given === undefined) return refuse(around, 'is not a JSON object')
      addHeaders(around, given)
    }),
  ),
  body: forTypes(
    WEB,
    formed(TEXT, (value, around) => {
      if (value === '') return
      around.draft.request['body'] = withoutSecrets(around, 'body', value)
      around.draft.request['bodyType'] ??= 'JSON'
    }),
  ),
  httpBodyEncoding: forTypes(WEB, (value: string, around) => {
    if (FORMATS[value] === undefined)
      return refuse(around, 'is not a format of a body; write json, form or xml')
    if ((around.draft.given?.['body'] ?? '') === '') return
    Object.assign(around.draft.request, FORMATS[value])
    if (value === 'xml') addHeaders(around, { 'Content-Type': 'text/xml; charset=utf-8' })
  }),
  authMethod: forTypes(
    WEB_OR_SOCKET,
    only(['', 'basic', 'bearer', 'mtls'], 'tokens of OAuth and NTLM are not supported'),
  ),
  cacheBust: forTypes(WEB, only([false, 0], 'parameters have no random values')),
  keyword: forTypes(['keyword', 'grpc-keyword'], (value: string, { draft }) => {
    const isInverted = Boolean(draft.given?.['invertKeyword'])
    const comparison = isInverted ? 'NOT_CONTAINS' : 'CONTAINS'
    draft.assertions.push({ source: 'TEXT_BODY', comparison, target: value })
  }),
  jsonPath: forTypes(['json-query'], formed(TEXT, jsonQuery)),
  packetSize: forTypes(['ping'], toRequest('payloadBytes')),
  ping_count: forTypes(['ping'], toRequest('pingCount')),
  ping_per_request_timeout: forTypes(['ping'], (value: number, around) => {
    setTimeoutMs(around, value * 1000)
  }),
  wsIgnoreSecWebsocketAcceptHeader: forTypes(
    ['websocket-upgrade'],
    only([false, 0], 'a handshake with a wrong Sec-WebSocket-Accept fails'),
  ),
  wsSubprotocol: forTypes(
    ['websocket-upgrade'],
    formed(TEXT, (value, { draft }) => {
      const names = value.split(',').map((one) => one.trim())
      if (value !== '') draft.request['subprotocols'] = names
    }),
  ),
  expectedTlsAlert: forTypes(['port'], only(['none', ''], 'a monitor cannot require a TLS alert')),
  ipFamily: (value: string, { draft }) => {
    if (value !== '') draft.request['ipFamily'] = value === 'ipv6' ? 'IPv6' : 'IPv4'
  },
}

const OPERATORS: Readonly<Record<string, string>> = {
  '==': 'EQUALS',
  '!=': 'NOT_EQUALS',
  '>': 'GREATER_THAN',
  '<': 'LESS_THAN',
  contains: 'CONTAINS',
}

/** JSONata where it is a path alone. */
function jsonQuery(value: string, around: Around): void {
  const { draft } = around
  const { expectedValue = '', jsonPathOperator = '==' } = draft.given ?? {}
  const property = jsonPathOf(value.trim().replace(/^\$/, ''))
  if (property === undefined)
    return refuse(around, 'is not a plain path of JSONata; write it as a JSONPath')
  const comparison = OPERATORS[textOf(jsonPathOperator ?? '==')]
  if (comparison === undefined)
    return refuse(around, 'numbers in JSON are compared by > and < only')
  draft.assertions.push({
    source: 'JSON_BODY',
    property,
    comparison,
    target: textOf(expectedValue),
  })
}

/** What is about alerts, or about how Uptime Kuma shows and stores results. */
const NOTED: Options = {
  notificationIDList: leftOut(ALERTS),
  resendInterval: leftOut(ALERTS),
  expiryNotification: leftOut('use an SSL monitor for the expiry of a certificate'),
  domainExpiryNotification: leftOut('no monitor checks when a domain expires'),
  retryOnlyOnStatusCodeFailure: leftOut('every failed run is repeated'),
  saveResponse: leftOut('results have the beginning of every answer'),
}

/** Read by the type of the monitor, without effect on the check, or of types that are refused as such. */
const SILENT =
  `id name type path pathName parent childrenIDs weight interval retryInterval maxretries timeout url
  hostname port invertKeyword expectedValue jsonPathOperator dns_resolve_type dns_resolve_server dns_last_result
  grpcUrl grpcProtobuf grpcMethod grpcServiceName grpcEnableTls grpcBody grpcMetadata smtpSecurity basic_auth_user
  basic_auth_pass bearer_token tlsCa tlsCert tlsKey includeSensitiveData maintenance forceInactive screenshot
  ping_numeric saveErrorResponse responseMaxLength location protocol subtype docker_container docker_host mqttTopic
  mqttSuccessMessage mqttCheckType mqttUsername
  mqttPassword mqttWebsocketPath databaseQuery databaseConnectionString radiusCalledStationId radiusCallingStationId
  radiusUsername radiusPassword radiusSecret game gamedigGivenPortOnly gamedigToken system_service_name
  kafkaProducerTopic kafkaProducerBrokers kafkaProducerSsl kafkaProducerAllowAutoTopicCreation kafkaProducerMessage
  kafkaProducerSaslOptions remote_browser screenshot_delay snmpOid snmpVersion rabbitmqNodes rabbitmqUsername
  rabbitmqPassword ntpStratumThreshold ntpTimeOffsetThreshold ntpRootDispersionThreshold oauth_client_id
  oauth_client_secret oauth_token_url oauth_scopes oauth_audience oauth_auth_method pushToken authWorkstation
  authDomain`.split(/\s+/)

/** Every option of a monitor. */
export const OPTIONS: Options = {
  ...Object.fromEntries(SILENT.map((name) => [name, silent])),
  ...NOTED,
  ...CHECKED,
}

/** The object in a text of JSON; an empty text has an empty one. */
export function objectOf(text: string): Fields | undefined {
  const value = jsonOf(text === '' ? '{}' : text)
  return isFields(value) ? value : undefined
}
