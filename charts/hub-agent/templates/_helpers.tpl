{{- /* The name of the chart, or nameOverride. */}}
{{- define "hub-agent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The name of objects: the release, with the name of the chart unless the release contains it. */}}
{{- define "hub-agent.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $release := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $release .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The selector of the Deployment. Immutable: never change it. */}}
{{- define "hub-agent.selectorLabels" -}}
app.kubernetes.io/name: {{ include "hub-agent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "hub-agent.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "hub-agent.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "hub-agent.serviceAccount" -}}
{{ include "hub-agent.fullname" . }}-sa
{{- end }}

{{- /* The Secret with the webhook certificate of cert-manager. */}}
{{- define "hub-agent.certificateSecret" -}}
{{ default "fleet-webhook-server-cert" .Values.webhookCertSecretName }}
{{- end }}

{{- /* Not empty if Secrets may be placed. An upgrade with --reuse-values may lack the value, and keeps the old behaviour. */}}
{{- define "hub-agent.placesSecrets" -}}
{{- if ne (toString .Values.placeSecrets) "false" }}true{{ end }}
{{- end }}

{{- /* Core resources that may be placed with placeSecrets=false, with their kinds. */}}
{{- define "hub-agent.coreKinds" -}}
configmaps: ConfigMap
endpoints: Endpoints
limitranges: LimitRange
namespaces: Namespace
persistentvolumeclaims: PersistentVolumeClaim
persistentvolumes: PersistentVolume
podtemplates: PodTemplate
replicationcontrollers: ReplicationController
resourcequotas: ResourceQuota
serviceaccounts: ServiceAccount
services: Service
{{- end }}

{{- /* The value of --allowed-propagating-apis with placeSecrets=false: what the agent may read, and envelopes. */}}
{{- define "hub-agent.placeableAPIs" -}}
{{- $core := include "hub-agent.coreKinds" . | fromYaml | values | sortAlpha | join "," -}}
{{- $own := "placement.kubernetes-fleet.io/v1beta1/ClusterResourceEnvelope,ResourceEnvelope" -}}
v1/{{ $core }};{{ $own }};{{ join ";" .Values.placeableAPIGroups }}
{{- end }}

{{- /* Rejects contradictory values before anything is installed. */}}
{{- define "hub-agent.refusals" -}}
{{- if and (gt (int .Values.replicaCount) 1) (not .Values.useCertManager) }}
{{- fail "replicaCount > 1 requires useCertManager=true: without cert-manager every agent shows a webhook certificate of its own, and the API server trusts only one of them" }}
{{- end }}
{{- if and .Values.useCertManager (not .Values.enableWorkload) }}
{{- fail "useCertManager=true requires enableWorkload=true: cert-manager itself runs on the hub" }}
{{- end }}
{{- if and .Values.enableAdmissionPolicyManager .Values.admissionPolicyManagerConfigName }}
{{- if not (hasKey .Values.additionalConfigData .Values.admissionPolicyManagerConfigName) }}
{{- fail (printf "admissionPolicyManagerConfigName=%s is no key of additionalConfigData" .Values.admissionPolicyManagerConfigName) }}
{{- end }}
{{- end }}
{{- end }}
